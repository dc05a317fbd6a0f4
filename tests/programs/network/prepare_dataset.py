#!/usr/bin/env python3
"""prepare_dataset.py PROGRAMS WORK [PYTHON]: prepare --dataset against a stand-in of the Hugging Face Hub (hub_server.py).

What it writes is compared with LLM Foundry's rule for concatenated samples, computed here: a tokenizer whose ids are bytes
needs no other library. PYTHON is an interpreter with pyarrow, which writes Parquet; without it that part is skipped, and also
where prepare was built without Parquet. WORK is emptied."""
import gzip
import hashlib
import json
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from hub_stand_in import Hub, write  # noqa: E402
from local_server import run_tests  # noqa: E402

PROGRAMS, WORK = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PYTHON = sys.argv[3] if len(sys.argv) > 3 else sys.executable
TOKEN = "hf_right"
END, END_ID = "<|endoftext|>", 256
LENGTH = 8  # ids of a sample

CARD = """---
license: odc-by
configs:
- config_name: en
  data_files:
  - split: train
    path: en/web-train.*.json.gz
  - split: validation
    path: en/web-validation.*.json.gz
- config_name: fr
  data_files:
  - split: train
    path: fr/*.json.gz
dataset_info:
- config_name: en
---
# Pages of the web
"""


def make_tokenizer():
    """A tokenizer of bytes: the id of a byte is its value."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in letters)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"id": END_ID, "content": END, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
               "special": True}
    write(WORK / "bytes/tokenizer.json", json.dumps(
        {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
         "pre_tokenizer": level, "post_processor": None, "decoder": level,
         "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                   "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                   "vocab": {letters[byte]: byte for byte in range(256)} | {END: END_ID}, "merges": []}}))


def document(kind, file, number):
    return f"{kind} {file}.{number}: " + "The café is open — naïve, she said.\n"[:(7 * number + 11 * file) % 37] * (number % 9)


def documents(kind, file, count):
    return [document(kind, file, i) for i in range(count)]


def rows(texts):
    return "".join(json.dumps({"url": "http://x/?text=no", "text": text, "timestamp": i}) + "\n" for i, text in enumerate(texts))


def packed(texts):
    return gzip.compress(rows(texts).encode(), mtime=0)


def fill(root):
    """Writes the repositories of the hub."""
    web = root / "datasets/org/web"
    write(web / "README.md", CARD)
    write(web / "web.py", "raise SystemExit('no code of a data set is run')\n")
    for i in range(8):
        write(web / f"en/web-train.{i:05}-of-00008.json.gz", packed(TRAIN[i]))
    for i in range(3):
        write(web / f"en/web-validation.{i:05}-of-00003.json.gz", packed(VALIDATION[i]))
    write(web / "fr/web.00000-of-00001.json.gz", packed(documents("français", 0, 50)))
    for name in ("org/private-one", "org/gated-one"):
        write(root / "datasets" / name / "train.jsonl", rows(documents("secret", 0, 30)))
    plain = root / "datasets/org/plain/data"
    for i in range(2):
        write(plain / f"train-{i:05}-of-00002.jsonl", rows(PLAIN[i]))
    write(plain / "test-00000-of-00001.jsonl", rows(documents("test", 0, 40)))
    write(root / "datasets/org/script/script.py", "class Script: pass\n")
    write(root / "datasets/org/script/README.md", "# made by a script\n")
    write(root / "datasets/org/pictures/a.png", b"\x89PNG")
    write(root / "datasets/org/table/train.csv", "text\nhello\n")
    write(root / "datasets/org/other-column/train.jsonl", '{"content": "a"}\n')


def foundry_samples(texts, wraps=True, begin=(), limit=None):
    """LLM Foundry's samples: ids end to end, cut every LENGTH; the set ends after `limit` samples."""
    out, buffer = [], []
    for text in texts:
        buffer = [*buffer, *begin, *text.encode(), END_ID]
        while len(buffer) >= LENGTH:
            out.append(tuple(buffer[:LENGTH]))
            buffer = buffer[LENGTH:] if wraps else []
            if len(out) == limit:
                return out
    return out


def samples(folder):
    """The samples of an MDS set, read by the description of its format."""
    index = json.loads((folder / "index.json").read_text())
    out = []
    for shard in index["shards"]:
        assert shard["column_names"] == ["tokens"] and shard["column_encodings"] == ["ndarray:int32"], shard
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        count = struct.unpack_from("<I", data)[0]
        assert count == shard["samples"]
        for i in range(count):
            begin, end = struct.unpack_from("<2I", data, 4 + 4 * i)
            assert struct.unpack_from("<I", data, begin)[0] == end - begin - 4
            assert data[begin + 4] == 1 << 2 and data[begin + 5] == LENGTH  # one dimension, its size in a byte
            out.append(struct.unpack_from(f"<{LENGTH}i", data, begin + 6))
            assert begin + 6 + 4 * LENGTH == end
    return out


def command(out, dataset, *arguments, separator=("--eos_text", END)):
    return [PROGRAMS / "prepare", "--dataset", dataset, "--tokenizer", str(WORK / "bytes"), "--concat_tokens", str(LENGTH),
            *separator, "--num_workers", "2", "--out_root", str(WORK / out), *arguments]


def prepare(out, dataset, *arguments, home="home", status=0, says=(), separator=("--eos_text", END), **more):
    """Runs prepare, expects its exit status and sentences."""
    done = subprocess.run(command(out, dataset, *arguments, separator=separator), env=hub.environment(home, **more),
                          capture_output=True, text=True, timeout=120)
    printed = done.stdout + done.stderr
    assert done.returncode == status, f"status {done.returncode}, expected {status}:\n{printed}"
    for part in [says] if isinstance(says, str) else says:
        assert part in printed, f"does not say '{part}':\n{printed}"
    for secret in (TOKEN, "secret_signature", "\x1b[31m"):
        assert secret not in printed, f"prints {secret}:\n{printed}"
    assert status == 0 or not (WORK / out / arguments[-1] / "index.json").exists()
    return printed


def fetched():
    """The data files that were asked for, in order, each as often as it was downloaded."""
    return [pathlib.Path(r["path"].split("?")[0]).name for r in hub.requests("files")]


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_small_split():
    hub.reset()
    prepare("small", "org/web", "--data_subset", "en", "--splits", "train_small", "val_xxsmall",
            says=["downloading org/web from the hub", "100000 samples of 8 tokens", "100 samples of 8 tokens"])
    every = [text for texts in TRAIN for text in texts]
    assert samples(WORK / "small/train_small") == foundry_samples(every, limit=100_000)
    assert len(foundry_samples(every)) > 140_000
    assert samples(WORK / "small/val_xxsmall") == foundry_samples(VALIDATION[0], limit=100)
    needed = next(n for n in range(1, 9) if len(foundry_samples([t for texts in TRAIN[:n] for t in texts])) >= 100_000)
    assert 2 < needed < 7
    assert fetched() == [f"web-train.{i:05}-of-00008.json.gz" for i in range(needed)] + ["web-validation.00000-of-00003.json.gz"]
    assert not hub.requests(path="web.py")


def test_offline():
    hub.reset()
    prepare("offline", "org/web", "--data_subset", "en", "--splits", "train_small,val_xxsmall", HF_HUB_OFFLINE="1")
    assert not hub.requests()
    assert files(WORK / "offline") == files(WORK / "small")
    prepare("offline", "org/web", "--data_subset", "en", "--splits", "train_small", HF_HUB_OFFLINE="1", says="already complete")
    prepare("offline-2", "org/web", "--data_subset", "en", "--splits", "val", HF_HUB_OFFLINE="1", status=1,
            says=["the cache has only a part of it", "(en/web-validation.00001-of-00003.json.gz)", "HF_HUB_OFFLINE is set"])
    prepare("offline-3", "org/plain", "--splits", "train", HF_HUB_OFFLINE="1", status=1, says="is not in the cache")
    assert not hub.requests()
    prepare("dead", "org/web", "--data_subset", "en", "--splits", "val_xxsmall", HF_ENDPOINT="http://127.0.0.1:9",
            says="taking dataset org/web from the cache")
    assert files(WORK / "dead/val_xxsmall") == files(WORK / "small/val_xxsmall")


def test_whole_splits():
    hub.reset()
    every = [text for texts in VALIDATION for text in texts]
    prepare("whole", "org/web", "--data_subset=en", "--splits", "val", "validation", "val_small")
    assert samples(WORK / "whole/val") == samples(WORK / "whole/validation") == foundry_samples(every)
    assert samples(WORK / "whole/val_small") == foundry_samples(every, limit=10_000)
    assert 10_000 < len(foundry_samples(every))
    assert fetched() == [f"web-validation.{i:05}-of-00003.json.gz" for i in (1, 2)]  # the first one was there
    prepare("french", "org/web", "--data_subset", "fr", "--splits", "train")
    assert samples(WORK / "french/train") == foundry_samples(documents("français", 0, 50))


def test_options():
    every = [text for texts in VALIDATION for text in texts]
    both = ("--eos_text", END, "--bos_text", END)
    prepare("no-wrap", "org/web", "--data_subset", "en", "--no_wrap", "--splits", "val_xsmall", separator=both)
    assert samples(WORK / "no-wrap/val_xsmall") == foundry_samples(every, wraps=False, begin=[END_ID], limit=3_000)[:3_000]
    prepare("zstd", "org/web", "--data_subset", "en", "--compression", "zstd:7", "--splits", "val_xsmall")
    index = json.loads((WORK / "zstd/val_xsmall/index.json").read_text())
    assert sum(shard["samples"] for shard in index["shards"]) == 3_000
    assert all(shard["compression"] == "zstd:7" and shard["zip_data"] for shard in index["shards"])


def test_files_by_name():
    hub.reset()
    prepare("plain", "org/plain", "--splits", "train", "test", "train_small")
    assert samples(WORK / "plain/train") == samples(WORK / "plain/train_small") == foundry_samples(PLAIN[0] + PLAIN[1])
    assert samples(WORK / "plain/test") == foundry_samples(documents("test", 0, 40))
    prepare("plain-2", "org/plain", "--data_subset", "default", "--splits", "test")
    prepare("plain-3", "org/plain", "--data_subset", "en", "--splits", "test", status=1,
            says='org/plain: has no subset "en"; its README.md names none')


def test_parquet():
    folder = hub.root / "datasets/org/columns/data"
    folder.mkdir(parents=True, exist_ok=True)
    texts = documents("column", 0, 500)
    code = ("import json, sys, pyarrow, pyarrow.parquet\n"
            "texts = json.load(sys.stdin)\n"
            "for i in range(2):\n"
            "  part = texts[250 * i:250 * (i + 1)]\n"
            "  table = pyarrow.table({'meta': [{'a': 1}] * 250, 'text': part, 'id': list(range(250))})\n"
            "  pyarrow.parquet.write_table(table, sys.argv[1] + f'/train-0000{i}-of-00002.parquet', row_group_size=77)\n")
    done = subprocess.run([PYTHON, "-c", code, folder], input=json.dumps(texts), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        print("skipped: no pyarrow")
        return
    probe = subprocess.run(command("columns", "org/columns", "--splits", "train"), env=hub.environment("home"), text=True,
                           capture_output=True, timeout=120, check=False)
    if "Arrow's C++ library" in probe.stderr:
        assert probe.returncode == 1 and not fetched()
        print("skipped: prepare reads no Parquet")
        return
    assert probe.returncode == 0, probe.stderr
    assert samples(WORK / "columns/train") == foundry_samples(texts)


def test_killed_run():
    hub.reset({"path": "train.00001", "server": "files", "kind": "slow", "bytes_per_second": 10_000, "times": 1})
    arguments = ("--data_subset", "en", "--splits", "train_small")
    (WORK / "temporary").mkdir()
    process = subprocess.Popen(command("killed", "org/web", *arguments),
                               env=hub.environment("killed-home", TMPDIR=str(WORK / "temporary")),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    second = hashlib.sha256(packed(TRAIN[1])).hexdigest()
    part = WORK / f"killed-home/hub/datasets--org--web/blobs/{second}.incomplete"
    deadline = time.monotonic() + 60
    while not part.exists() or part.stat().st_size < 4_000:
        time.sleep(0.05)
        assert process.poll() is None and time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (WORK / "killed/train_small/index.json").exists() and not list((WORK / "temporary").iterdir())
    hub.reset()
    prepare("killed", "org/web", *arguments, home="killed-home")
    assert files(WORK / "killed/train_small") == files(WORK / "small/train_small")
    again = hub.requests("files")
    assert "train.00001" in again[0]["path"] and again[0]["status"] == 206  # it goes on in the middle of the second file


def test_changed_set():
    hub.reset()
    prepare("changed", "org/plain", "--splits", "test")
    file = hub.root / "datasets/org/plain/data/test-00000-of-00001.jsonl"
    old = file.read_bytes()
    write(file, rows(documents("changed", 0, 40)))
    try:
        printed = prepare("changed/none", "org/plain", "--splits", "test")
        assert "already complete" not in printed
        done = subprocess.run(command("changed", "org/plain", "--splits", "test"), env=hub.environment("home"), text=True,
                              capture_output=True, timeout=120, check=False)
        assert done.returncode == 1 and "holds a data set prepared with other parameters" in done.stderr, done.stderr
        assert "data/test-00000-of-00001.jsonl" in done.stderr, done.stderr
    finally:
        write(file, old)


def test_errors():
    hub.reset()
    english = ("--data_subset", "en", "--splits")
    prepare("bad", "org/web", *english, "train_small", "dev", status=1,
            says='org/web, subset en: has no split "dev"; expected one of train, validation, train_small, val, val_small, '
                 "val_xsmall, val_xxsmall")
    prepare("bad", "org/web", "--data_subset", "de", "--splits", "train", status=1, says='has no subset "de"; it has en, fr')
    prepare("bad", "org/web", "--splits", "train", status=1, says=["has the configurations en, fr", "--data_subset"])
    prepare("bad", "org/script", "--splits", "train", status=1, says="org/script: the script script.py makes its rows")
    prepare("bad", "org/pictures", "--splits", "train", status=1, says=["has no file of rows", "it has a.png"])
    prepare("bad", "org/table", "--splits", "train", status=1, says="org/table/train.csv: CSV is not read")
    prepare("bad", "org/gated-one", "--splits", "train", status=1, says="ask for access on that page", HF_TOKEN=TOKEN)
    prepare("bad", "org/private-one", "--splits", "train", status=1, says="does not show it (401 Unauthorized; no token is set")
    prepare("bad", "org/absent", "--splits", "train", status=1, says=f"127.0.0.1:{hub.port}/datasets/org/absent: the hub has no such dataset")
    prepare("bad", "the_pile", "--splits", "train", status=1, says="--dataset: expected ORG/NAME, found 'the_pile'")
    assert not (WORK / "bad").exists(), "an error of the command line leaves a folder"
    assert not hub.requests("files")
    prepare("private", "org/private-one", "--splits", "train", HF_TOKEN=TOKEN)
    assert samples(WORK / "private/train") == foundry_samples(documents("secret", 0, 30))
    prepare("column", "org/other-column", "--splits", "train", status=1, says='the row has no "text"; its keys are "content"')
    done = subprocess.run(command("bad", "org/web"), capture_output=True, text=True, timeout=60, check=False,
                          env=hub.environment("home"))
    assert done.returncode != 0 and "--splits is required" in done.stderr, done.stderr


def test_full_folder():
    write(WORK / "full/train_small/shard.00000.mds", "x")
    hub.reset()
    prepare("full", "org/web", "--data_subset", "en", "--splits", "train_small", status=1,
            says="already holds shard.00000.mds, which prepare did not leave")
    assert not fetched() and (WORK / "full/train_small/shard.00000.mds").read_text() == "x"
    done = subprocess.run(command("small", "org/web", "--data_subset", "en", "--splits", "train_small", "--no_wrap"),
                          env=hub.environment("home"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "no_wrap: was false, now true" in done.stderr, done.stderr


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    TRAIN = [documents("train", i, 1_500) for i in range(8)]
    VALIDATION = [documents("validation", i, 350) for i in range(3)]
    PLAIN = [documents("plain", i, 60) for i in range(2)]
    make_tokenizer()
    hub = Hub(WORK)
    fill(hub.root)
    try:
        run_tests(globals())
    finally:
        hub.process.terminate()
