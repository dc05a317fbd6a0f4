#!/usr/bin/env python3
"""streaming.py PROGRAMS WORK: pretrain on remote MDS sets through a cache of a few shards, against local servers with faults.

The losses must be those of the local set to the last digit, the cache must never hold more than its limit, and a shard be
downloaded once and not once a rank. WORK is emptied."""
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
from local_server import StandIn  # noqa: E402
from mds_set import write_set  # noqa: E402

PROGRAMS, WORK = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
BATCHES = 120  # of 8 samples: one epoch of 240 shards of 4 samples
SHARDS, CACHED = 240, 48  # of the set, and of them as many as the cache may hold
SECRET = "wJalr/XUtn+FEMI"

CONFIG = """
run_name: test
max_seq_len: 16
model: {name: mpt_causal_lm, d_model: 16, n_heads: 2, n_layers: 1, max_seq_len: 16, vocab_size: 64}
tokenizer: {name: none}
train_loader: {name: text, dataset: {local: LOCAL, shuffle: true}}
scheduler: {name: constant_with_warmup, t_warmup: 3ba}
optimizer: {name: decoupled_adamw, lr: 1.0e-3}
max_duration: 120ba
eval_interval: 0ba
global_train_batch_size: 8
device_train_microbatch_size: 4
device_eval_batch_size: 4
precision: fp32
ranks: 2
log_to_console: false
progress_bar: false
"""


class Server(StandIn):
    """A stand-in server of the sets in WORK/root."""

    def __init__(self, script, state, *arguments, prefix=()):
        super().__init__([*prefix, sys.executable, HERE / script, WORK / "root", WORK / state, *arguments], WORK / state)

    def shard_counts(self):
        counts = {}
        for request in self.requests("/shard."):
            counts[request["path"]] = counts.get(request["path"], 0) + 1
        return counts


class Watch:
    """Notes the largest sum of the sizes of a cache's files while it lives, its index and locks aside."""

    def __init__(self, folder):
        self.folder, self.largest, self.stop = folder, 0, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop:
            time.sleep(0.002)
            try:
                with open(self.folder / ".streaming/locks", "rb") as locks:
                    fcntl.lockf(locks, fcntl.LOCK_SH, 1, (1 << 40) + 1)  # nothing is removed nor begun meanwhile
                    self.largest = max(self.largest, self.total())
            except FileNotFoundError:
                pass

    def total(self):
        """The bytes of the shards; a part that becomes a shard meanwhile is counted once."""
        sizes = {}
        for path, _, names in os.walk(self.folder):
            for name in names:
                if match := re.match(r"shard\.(\d+)|(\d+)\.part", name):
                    number = int(match[1] or match[2])
                    try:
                        sizes[number] = max(sizes.get(number, 0), os.path.getsize(os.path.join(path, name)))
                    except FileNotFoundError:
                        pass
        return sum(sizes.values())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *problem):
        self.stop = True
        self.thread.join()


def environment(**more):
    out = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "AWS_", "S3_"))}
    return out | {"HF_HUB_OFFLINE": "1", "HOME": str(WORK)} | more


def command(*settings, launcher=()):
    return [*launcher, PROGRAMS / "pretrain", "run.yaml", *settings]


def train(*settings, status=0, says=(), launcher=(), **variables):
    done = subprocess.run(command(*settings, launcher=launcher), cwd=WORK, env=environment(**variables), capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == status, f"{settings}: status {done.returncode}, expected {status}:\n{done.stdout}{done.stderr}"
    for part in [says] if isinstance(says, str) else says:
        assert part in done.stderr, f"does not say '{part}':\n{done.stderr}"
    for secret in (SECRET, "\x1b[31m"):
        assert secret not in done.stdout + done.stderr, f"prints {secret}:\n{done.stderr}"
    return done.stderr


def losses(file):
    out = {}
    for line in (WORK / file).read_text().splitlines():
        row = json.loads(line)
        if "loss/train/total" in row:
            out[row["time/batch"]] = (row["loss/train/total"], row["l2_norm/grad/global"])
    return out


def same_losses(file, expected, first=1):
    found = losses(file)
    wanted = {batch: value for batch, value in expected.items() if batch >= first}
    assert {b: v for b, v in found.items() if b >= first} == wanted, f"{file}: other losses than those of the local set"


def side_by_side(*tests):
    """Calls the functions at the same time, as most of their time is waiting."""
    with ThreadPoolExecutor(len(tests)) as pool:
        for done in [pool.submit(test) for test in tests]:
            done.result()


def clean(*names):
    for name in names:
        shutil.rmtree(WORK / name, ignore_errors=True)


def remote_settings(local, address, limit, *more):
    return [f"train_loader.dataset.local={local}", f"train_loader.dataset.remote={address}",
            f"train_loader.dataset.cache_limit={limit}", *more]


IN_ORDER = ["max_duration=16ba", "train_loader.dataset.shuffle=false"]  # the first 32 shards, one after another


def test_small_cache(server, address, bytes_of_shard):
    """An epoch of a set through a cache of a fifth of it: on threads, and on processes."""
    limit = CACHED * bytes_of_shard
    launchers = [("threads", (), ["ranks=2"])]
    if (PROGRAMS / "launch").exists():
        launchers.append(("processes", (PROGRAMS / "launch", "-n", "2"), []))
    for name, launcher, settings in launchers:
        server.reset()
        clean("cache")
        with Watch(WORK / "cache") as watch:
            train(*remote_settings("cache", address, limit), f"metrics_file={name}.jsonl", *settings, launcher=launcher)
        same_losses(f"{name}.jsonl", expected)
        counts = server.shard_counts()
        assert len(counts) == SHARDS, f"{len(counts)} shards were downloaded"
        # Beside one need a shard: three that say which set it is, and the next epoch's first batches, which the cache holds.
        total = sum(counts.values())
        assert SHARDS <= total <= SHARDS + 3 + CACHED, f"{name}: {total} downloads of {SHARDS} shards"
        assert max(counts.values()) <= 3
        assert len(server.requests("index.json")) == 1
        assert limit // 2 < watch.largest <= limit, f"{name}: the cache held {watch.largest} bytes of {limit}"
        print(f"{name}: the losses of the local set; {total} downloads of {SHARDS} shards; at most "
              f"{watch.largest / bytes_of_shard:.1f} of {CACHED} shards at once")


def test_killed(server, address, bytes_of_shard):
    """A run that is killed, with a shard half downloaded, goes on as the uninterrupted one."""
    server.reset({"path": "shard.", "kind": "slow", "bytes_per_second": 40000})
    clean("killed", "ckpt")
    settings = [*remote_settings("killed", address, CACHED * bytes_of_shard), "save_folder=ckpt", "save_interval=6ba",
                "max_duration=60ba", "autoresume=true"]
    process = subprocess.Popen(command(*settings), cwd=WORK, env=environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    until = time.time() + 120
    while not (WORK / "ckpt/latest").exists() and time.time() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (WORK / "ckpt/latest").exists()
    server.reset()
    train(*settings, "metrics_file=resumed.jsonl")
    found = losses("resumed.jsonl")
    assert found and min(found) > 6 and max(found) == 60, sorted(found)[:3]
    for batch, value in found.items():
        assert value == expected[batch], f"batch {batch} of the resumed run differs"
    print(f"killed and resumed from batch {min(found)}: the losses of the uninterrupted run")


def test_taken_over(server, address, bytes_of_shard):
    """Two runs on one cache: one dies while it downloads a shard, the other goes on with its part."""
    server.reset({"path": "shard.00002", "kind": "slow", "bytes_per_second": 80, "times": 1})
    clean("shared")
    settings = [*remote_settings("shared", address, CACHED * bytes_of_shard), *IN_ORDER]
    first = subprocess.Popen(command(*settings), cwd=WORK, env=environment(), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    part = WORK / "shared/.streaming/2.part.incomplete"
    until = time.time() + 120
    while not (part.exists() and part.stat().st_size > 50) and time.time() < until:
        time.sleep(0.01)
    other = subprocess.Popen(command(*settings, "metrics_file=other.jsonl"), cwd=WORK, env=environment(),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)  # for the other to begin to wait
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert other.wait(timeout=200) == 0
    same_losses("other.jsonl", expected_in_order)
    ranges = [r["range"] for r in server.requests("shard.00002")]
    assert len(ranges) == 2 and ranges[0] is None and ranges[1].startswith("bytes="), ranges
    print(f"a downloader that was killed: another run went on with {ranges[1]} and had the losses of the local set")


def test_faults(server, address, bytes_of_shard):
    """What a server does wrong for a while changes nothing; what it does wrong for ever ends the run in one sentence."""
    port = server.ports[1]
    short = [*IN_ORDER]
    passing = [{"path": "shard.00003", "kind": "cut", "bytes": 200, "times": 1},
               {"path": "shard.00006", "kind": "status", "status": 503, "times": 1},
               {"path": "shard.00009", "kind": "status", "status": 429, "retry_after": 1, "times": 1},
               {"path": "shard.00012", "kind": "corrupt", "times": 1},
               {"path": "shard.00015", "kind": "long_length", "times": 1},
               {"path": "shard.00018", "kind": "cut", "bytes": 100, "times": 1},
               {"path": "shard.00018", "kind": "stall", "seconds": 3, "times": 1},
               {"path": "shard.00021.mds", "kind": "redirect", "times": 1,
                "location": f"http://localhost:{port}/datasets/org/set/shard.00021.mds?moved"},
               {"path": "index.json", "kind": "status", "status": 500, "times": 1}]
    server.reset(*passing)
    clean("faulty")
    train(*remote_settings("faulty", address, CACHED * bytes_of_shard), *short, "train_loader.dataset.download_timeout=1",
          "metrics_file=faulty.jsonl")
    same_losses("faulty.jsonl", expected_in_order)
    for shard, begin in (("00003", 200), ("00018", 100)):
        assert any(r["range"] == f"bytes={begin}-" for r in server.requests(f"shard.{shard}")), f"shard {shard} began anew"
    assert server.requests("?moved")
    print("cut, 503, 429, other bytes, another length, a stall, a redirect: the losses of the local set")
    endless = [("status", {"status": 404}, "shard.00005.mds: the server answers 404 Not Found; check the address and split"),
               ("status", {"status": 403}, "the server answers 403 Forbidden. A web server must give these files without a login"),
               ("status", {"status": 500}, "the server answers 500 Internal Server Error; it was asked several times"),
               ("corrupt", {}, "sha1 is "), ("short_length", {}, "it should have")]
    # Each of them has its own set at the server, so that they run side by side.
    for number in range(len(endless)):
        os.symlink("set", WORK / f"root/datasets/org/endless-{number}")
    server.reset(*({"path": f"endless-{number}/shard.00005", "kind": kind, **more}
                   for number, (kind, more, _) in enumerate(endless)))

    def refused(number):
        train(*remote_settings(f"refused-{number}", f"{address[:-3]}endless-{number}", CACHED * bytes_of_shard), *short,
              "train_loader.dataset.download_retry=1", status=1, says=endless[number][2])
        assert not list((WORK / f"refused-{number}").rglob("shard.00005*")), "a wrong shard was kept"

    side_by_side(*(functools.partial(refused, number) for number in range(len(endless))))
    server.reset()
    train(*remote_settings("faulty2", address + "/nothing", CACHED * bytes_of_shard), *short, status=1,
          says=["/nothing/index.json: the server answers 404 Not Found; check the address and split"])
    train(*remote_settings("faulty", address, 4 * bytes_of_shard), *short, status=1,
          says=["cache_limit: ", "shards at once, which take", "set it to that or more"])
    train(*remote_settings("faulty", address, bytes_of_shard // 2), *short, status=1, says="cache_limit: ")
    train(*remote_settings("faulty", f"http://localhost:{port}/datasets/org/set", CACHED * bytes_of_shard), *short, status=1,
          says="holds shards of " + address)
    print("404, 403, 500, other bytes, another length, too small a limit, another address: one sentence")


def test_store():
    """An object store, whose server checks signatures: compressed streams with proportions, and what keys are told."""
    store = Server("store_server.py", "store-state")
    write_set(WORK / "root/bucket/sets/one/train", 200, 6, 2, compression="gz")
    write_set(WORK / "root/bucket/sets/two/train", 150, 8, 3)
    shutil.copytree(WORK / "root/bucket/sets/two", WORK / "root/public-bucket/two")
    # a local set with it: the same shards, decompressed
    write_set(WORK / "one/train", 200, 6, 2)
    streams = "train_loader.dataset.streams={{one: {{proportion: 0.7, local: {}{}}}, two: {{proportion: 0.3, local: {}{}}}}}"
    short = ["train_loader.dataset.local=", "train_loader.dataset.split=train", "max_duration=100ba"]
    train(*short, streams.format("one", "", "root/bucket/sets/two", ""), "metrics_file=local-streams.jsonl")
    key = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-central-1",
           "S3_ENDPOINT_URL": f"http://127.0.0.1:{store.ports[0]}"}
    remote = streams.format("c/one", ", remote: 's3://bucket/sets/one'", "c/two", ", remote: 's3://bucket/sets/two'")
    train(*short, remote, "train_loader.dataset.cache_limit=120kb", "metrics_file=streams.jsonl", **key)
    same_losses("streams.jsonl", losses("local-streams.jsonl"))
    assert {r["status"] for r in store.requests()} == {200}
    assert not list((WORK / "c").rglob("*.gz")) and list((WORK / "c/one/train").glob("*.mds"))
    print("two streams of an object store, one compressed: the losses of the local sets, every request signed rightly")
    clean("c")
    (WORK / ".aws").mkdir()
    (WORK / ".aws/credentials").write_text(f"[default]\naws_access_key_id = AKIATEST\naws_secret_access_key = {SECRET}\n")
    file_key = {k: v for k, v in key.items() if "KEY" not in k}
    train(*short, remote, "metrics_file=streams2.jsonl", "max_duration=2ba", **file_key)
    shutil.rmtree(WORK / ".aws")
    clean("c")
    for changed, sentence in (({"AWS_SECRET_ACCESS_KEY": "other"}, "(SignatureDoesNotMatch); the key of AWS_ACCESS_KEY_ID was"),
                              ({"AWS_ACCESS_KEY_ID": "AKIAOTHER"}, "(InvalidAccessKeyId)"),
                              ({"AWS_REGION": "us-east-1"}, "check its secret, and AWS_REGION (us-east-1)"),
                              ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no key was sent"),
                              ({"AWS_SECRET_ACCESS_KEY": ""}, "is half a key")):
        train(*short, remote, status=1, says=sentence, **(key | changed))
        clean("c")
    train("train_loader.dataset.split=train", *remote_settings("c/public", "s3://public-bucket/two", "1mb"), "max_duration=5ba",
          **{k: v for k, v in file_key.items()})
    print("keys from the environment and from a file, none for a public bucket; a wrong key, region or none: one sentence")
    store.process.terminate()


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    (WORK / "run.yaml").write_text(CONFIG.replace("LOCAL", "root/set"))
    bytes_of_shard = write_set(WORK / "root/datasets/org/set", SHARDS, 4, 1)
    os.symlink("datasets/org/set", WORK / "root/set")
    global expected, expected_in_order
    train("train_loader.dataset.local=root/set", "metrics_file=local.jsonl")
    expected = losses("local.jsonl")
    assert len(expected) == BATCHES
    train("train_loader.dataset.local=root/set", *IN_ORDER, "metrics_file=local-in-order.jsonl")
    expected_in_order = losses("local-in-order.jsonl")

    def with_server(test):
        server = Server("hub_server.py", f"state-{test.__name__}")
        test(server, f"http://127.0.0.1:{server.ports[1]}/datasets/org/set", bytes_of_shard)
        server.process.terminate()

    side_by_side(*(functools.partial(with_server, test) for test in (test_small_cache, test_killed, test_taken_over, test_faults)),
                 test_store)


main()
