#!/usr/bin/env python3
"""fetch.py PROGRAMS WORK [PYTHON]: program fetch against a stand-in of the Hugging Face Hub (hub_server.py), faults included.

PYTHON is an interpreter with huggingface_hub, whose own client reads the cache that fetch wrote, and writes one that fetch
reads; without it that part is skipped. WORK is emptied."""
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from hub_stand_in import Hub, write  # noqa: E402
from local_server import run_tests  # noqa: E402

PROGRAMS, WORK = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PYTHON = sys.argv[3] if len(sys.argv) > 3 else sys.executable
TOKEN = "hf_right"
SIZE = 400_000


def fill(root):
    """Writes the repositories of the hub."""
    for name in ("org/tiny", "org/private-one", "org/gated-one"):
        folder = root / "models" / name
        write(folder / "config.json", '{"model_type": "mpt"}')
        write(folder / "model.safetensors", bytes(i * i % 251 for i in range(SIZE)))
        write(folder / "sub folder" / "naïve.txt", "text\n")
        write(folder / "README.md", "# tiny\n")
    write(root / "datasets/org/data/train.jsonl", '{"prompt": "a", "response": "b"}\n')
    write(root / "datasets/org/data/en/x.parquet", b"PAR1" * 999)


def fetch(home, *arguments, status=0, says=(), **more):
    """Runs fetch, expects its exit status and sentences, and returns the folder that it printed."""
    done = subprocess.run([PROGRAMS / "fetch", *arguments], env=hub.environment(home, **more), capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == status, f"status {done.returncode}, expected {status}:\n{done.stdout}{done.stderr}"
    for part in [says] if isinstance(says, str) else says:
        assert part in done.stderr, f"does not say '{part}':\n{done.stderr}"
    for secret in (TOKEN, "secret_signature", "\x1b[31m"):
        assert secret not in done.stdout + done.stderr, f"prints {secret}:\n{done.stderr}"
    if status == 0:
        return pathlib.Path(done.stdout.strip())
    assert done.stdout == "", done.stdout
    assert len(done.stderr.strip().splitlines()[-1]) < 900
    return done.stderr


def same(snapshot, name="org/tiny", kind="models"):
    """The snapshot has the repository's files, each a link into blobs; nothing half-written is left."""
    folder = hub.root / kind / name
    names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir())
    for file in names:
        assert (snapshot / file).read_bytes() == (folder / file).read_bytes(), file
        assert (snapshot / file).is_symlink() and not os.readlink(snapshot / file).startswith("/")
    left = [p for p in snapshot.parents[1].rglob("*") if ".incomplete" in p.name or p.name.endswith(".tmp")]
    assert not left, left


def blobs(home):
    return sorted(p.name for p in (WORK / home).rglob("blobs/*"))


def test_whole_repository():
    hub.reset()
    snapshot = fetch("plain", "org/tiny", says="4 files, 391 KiB downloaded now", HF_TOKEN=TOKEN)
    same(snapshot)
    assert (snapshot.parents[1] / "refs/main").read_text() == snapshot.name
    assert all(r["authorization"] == "Bearer hf_right" for r in hub.requests("hub"))
    assert hub.requests("files") and all(r["authorization"] is None for r in hub.requests("files"))
    hub.reset()
    assert fetch("plain", "org/tiny", says="0 B downloaded now") == snapshot
    assert len(hub.requests()) == 1  # the commit of main
    assert fetch("plain", "org/tiny", HF_HUB_OFFLINE="1") == snapshot
    assert len(hub.requests()) == 1
    same(fetch("plain", "--dataset", "org/data"), "org/data", "datasets")


def test_damaged_cache():
    hub.reset()
    snapshot = fetch("flipped", "org/tiny")
    for name in ("model.safetensors", "config.json"):  # of LFS by SHA-256, of git by SHA-1
        blob = (snapshot / name).resolve()
        sound = blob.read_bytes()
        blob.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        fetch("flipped", "org/tiny", status=1, HF_HUB_OFFLINE="1", says=f"{name}: has not the length and checksum")
        trees = snapshot.parents[1] / "trees"
        trees.rename(trees.with_name("away"))  # a cache that another program made: blobs are named by checksums
        fetch("flipped", "org/tiny", status=1, HF_HUB_OFFLINE="1", says=f"{name}: has not the length and checksum")
        trees.with_name("away").rename(trees)
        assert fetch("flipped", "org/tiny", says=f"{name} of org/tiny in the cache has another checksum") == snapshot
        assert blob.read_bytes() == sound
    same(snapshot)


def test_links_in_the_cache():
    hub.reset()
    outside = WORK / "outside"
    outside.mkdir()
    commit = fetch("whole", "org/tiny").name
    for name in ("refs", f"snapshots/{commit}", "trees", "snapshots"):
        root = WORK / "linked" / name.replace("/", "-") / "hub/models--org--tiny"
        (root / name).parent.mkdir(parents=True)
        (root / name).symlink_to(outside)
        fetch(f"linked/{name.replace('/', '-')}", "org/tiny", status=1, says=f"{name}: is a link to {outside}")
    root = WORK / "linked/part/hub/models--org--tiny/blobs"
    root.mkdir(parents=True)
    for blob in blobs("whole"):
        (root / (blob + ".incomplete")).symlink_to(outside / "escaped")
    fetch("linked/part", "org/tiny", status=1, says="is a link, and nothing is written through it")
    assert not list(outside.iterdir())


def test_patterns_and_revisions():
    hub.reset()
    snapshot = fetch("patterns", "org/tiny", "--include", "*.json", "--include", "sub folder/")
    assert sorted(p.name for p in snapshot.rglob("*") if p.is_file()) == ["config.json", "naïve.txt"]
    assert fetch("patterns", "org/tiny", "--revision", snapshot.name, "--exclude", "*.txt") == snapshot
    assert not (snapshot.parents[1] / "refs" / snapshot.name).exists()
    fetch("patterns", "org/tiny", "--include", "*.gguf", status=1, says="no file of it is asked for; it has README.md")
    fetch("patterns", "org/tiny", "--revision", "v2", status=1, says='has no branch, tag or commit "v2"')
    fetch("patterns", "org/tiny", "--revision", "../../x", status=1, says="is no revision")
    for name in ("../etc", "org/tiny/x", "-x/y", "a b/c", "http://x/y"):
        fetch("patterns", "--", name, status=1, says="is no name of the hub")


def test_new_commit():
    hub.reset()
    first = fetch("commits", "org/tiny")
    readme = hub.root / "models/org/tiny/README.md"
    old = readme.read_bytes()
    write(readme, "# changed\n")
    try:
        second = fetch("commits", "org/tiny", says="10 B downloaded now")
        same(second)
        assert first != second and first.parent == second.parent
        assert len(hub.requests("files")) == 1  # the large file came once
        assert fetch("commits", "org/tiny", HF_HUB_OFFLINE="1") == second
    finally:
        write(readme, old)


def test_hub_client():
    if subprocess.run([PYTHON, "-c", "import huggingface_hub"], capture_output=True, check=False).returncode != 0:
        print("skipped: no huggingface_hub")
        return
    code = ("import sys; from huggingface_hub import snapshot_download, hf_hub_download\n"
            "print(snapshot_download(sys.argv[1], repo_type=sys.argv[2]))")

    def client(home, name, kind, **more):
        return pathlib.Path(subprocess.run([PYTHON, "-c", code, name, kind], env=hub.environment(home, **more), text=True,
                                           capture_output=True, check=True).stdout.strip())
    hub.reset()
    ours = fetch("ours", "org/tiny"), fetch("ours", "--dataset", "org/data")
    hub.reset()
    assert client("ours", "org/tiny", "model", HF_HUB_OFFLINE="1") == ours[0]
    assert client("ours", "org/data", "dataset", HF_HUB_OFFLINE="1") == ours[1]
    assert not hub.requests()
    assert client("ours", "org/tiny", "model") == ours[0]
    assert not hub.requests(path="/resolve/"), "the hub's client downloads what is in our cache"
    theirs = client("theirs", "org/tiny", "model"), client("theirs", "org/data", "dataset")
    hub.reset()
    assert fetch("theirs", "org/tiny", HF_HUB_OFFLINE="1") == theirs[0]
    assert fetch("theirs", "org/tiny", says="0 B downloaded now") == theirs[0]
    assert fetch("theirs", "--dataset", "org/data", HF_HUB_OFFLINE="1") == theirs[1]
    assert not hub.requests(path="/resolve/")


def test_cut_connection():
    hub.reset({"path": "safetensors", "server": "files", "kind": "cut", "bytes": 100_000, "times": 3})
    same(fetch("cut", "org/tiny", says="trying again in 1 s"))
    ranges = [(r["range"], r["status"]) for r in hub.requests("files")]
    assert ranges == [(None, 200), ("bytes=100000-", 206), ("bytes=200000-", 206), ("bytes=300000-", 206)], ranges
    assert all(r["if_range"].startswith('"') for r in hub.requests("files")[1:])


def test_killed_download():
    hub.reset({"path": "safetensors", "server": "files", "kind": "slow", "bytes_per_second": 200_000, "times": 1})
    process = subprocess.Popen([PROGRAMS / "fetch", "org/tiny"], env=hub.environment("killed", HF_TOKEN=TOKEN),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part = None
    while part is None or part.stat().st_size < 60_000:
        time.sleep(0.05)
        part = next((WORK / "killed").rglob("*.incomplete"), None)
        assert process.poll() is None
    assert TOKEN not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_text()
    process.send_signal(signal.SIGKILL)
    process.wait()
    fetch("killed", "org/tiny", status=1, says=["is not in the cache", "HF_HUB_OFFLINE"], HF_HUB_OFFLINE="1")
    hub.reset()
    same(fetch("killed", "org/tiny"))
    begin = int(re.fullmatch(r"bytes=(\d+)-", hub.requests("files")[0]["range"])[1])
    assert begin >= 60_000 and hub.requests("files")[0]["status"] == 206


def test_ranges_that_lie():
    cut = {"path": "safetensors", "server": "files", "kind": "cut", "bytes": 100_000, "times": 1}
    hub.reset(cut, {"path": "safetensors", "kind": "no_range", "times": 1})
    same(fetch("no-range", "org/tiny"))
    hub.reset(cut | {"bytes": 100_001}, {"path": "safetensors", "kind": "wrong_range"})
    fetch("wrong-range", "org/tiny", status=1, says="was asked for the bytes from 100001 on and sends others")
    write(next((WORK / "wrong-range").rglob("*.incomplete")), b"x" * (SIZE - 1))  # another file's, longer
    next((WORK / "wrong-range").rglob("*.incomplete.etag")).unlink()
    hub.reset()
    same(fetch("wrong-range", "org/tiny"))  # the checksum of the first attempt is another: it begins anew


def test_wrong_bytes():
    hub.reset({"path": "safetensors", "server": "files", "kind": "corrupt", "times": 1})
    same(fetch("corrupt-once", "org/tiny"))
    for path in ("safetensors", "config.json"):
        hub.reset({"path": path, "kind": "corrupt"})
        fetch("corrupt-" + path, "org/tiny", status=1, says=["what came has the checksum", "nothing of it was kept"])
        assert not [p for p in (WORK / ("corrupt-" + path)).rglob("*.incomplete*")]
        fetch("corrupt-" + path, "org/tiny", status=1, says="is not in the cache", HF_HUB_OFFLINE="1")
    for kind, count in (("long_length", SIZE + 7), ("short_length", SIZE - 7)):
        hub.reset({"path": "safetensors", "server": "files", "kind": kind})
        fetch(kind, "org/tiny", status=1, says=f"the server has {count} bytes of it, and it should have {SIZE}")


def test_busy_server():
    hub.reset({"path": "/revision/", "kind": "status", "status": 429, "retry_after": 2, "times": 1},
              {"path": "config.json", "kind": "status", "status": 503, "times": 2},
              {"path": "safetensors", "server": "files", "kind": "status", "status": 500, "times": 1})
    begin = time.monotonic()
    same(fetch("busy", "org/tiny", says=["answers 429 Too Many Requests; trying again in 2 s", "answers 503"]))
    assert time.monotonic() - begin > 2
    hub.reset({"path": "/revision/", "kind": "status", "status": 429, "retry_after": 100_000})
    begin = time.monotonic()
    fetch("too-busy", "org/tiny", status=1, says=["answers 429 Too Many Requests", "is not in the cache"])
    assert time.monotonic() - begin < 5 and len(hub.requests()) == 1
    assert fetch("busy", "org/tiny", says="from the cache, as of commit")


def test_stalled_connection():
    hub.reset({"path": "config.json", "kind": "cut", "bytes": 3, "times": 1}, {"path": "config.json", "kind": "stall",
                                                                              "seconds": 20, "times": 1})
    begin = time.monotonic()
    same(fetch("stalled", "org/tiny", says="the connection failed", HF_HUB_DOWNLOAD_TIMEOUT="1"))
    assert time.monotonic() - begin < 15


def test_unreachable_hub():
    hub.reset()
    dead = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    fetch("unreachable", "org/tiny", status=1, says=["http://127.0.0.1:9 cannot be reached", "is not in the cache"], **dead)
    snapshot = fetch("unreachable", "org/tiny")
    assert fetch("unreachable", "org/tiny", says="taking org/tiny from the cache, as of commit", **dead) == snapshot
    os.unlink(snapshot / "config.json")
    fetch("unreachable", "org/tiny", status=1, says="1 of 4 files are missing (config.json)", **dead)
    fetch("unreachable", "org/tiny", status=1, says="1 of 4 files are missing (config.json)", HF_HUB_OFFLINE="1")
    same(fetch("unreachable", "org/tiny", says="0 B downloaded now"))
    fetch("unreachable", "org/tiny", status=1, says="HF_ENDPOINT: is no address", HF_ENDPOINT="huggingface.co")


def test_tokens():
    hub.reset()
    private = "org/private-one"
    fetch("tokens", private, status=1, says=["does not show it (401 Unauthorized; no token is set"])
    fetch("tokens", private, status=1, says="the token of HF_TOKEN was sent", HF_TOKEN="hf_wrong")
    fetch("tokens", "org/gated-one", status=1, says="ask for access on that page", HF_TOKEN=TOKEN)
    fetch("tokens", private, status=1, says="HF_TOKEN: is no token of the hub", HF_TOKEN="hf_a\nX-Header: b")
    write(WORK / "tokens/token", TOKEN + "\n")
    same(fetch("tokens", private), private)
    write(WORK / "elsewhere", TOKEN)
    same(fetch("tokens-2", private, HF_TOKEN_PATH=str(WORK / "elsewhere")), private)
    hub.reset({"path": "config.json", "server": "hub", "kind": "redirect",
               "location": "http://localhost:{files}/models/org/private-one/config.json"},
              {"path": "/revision/", "server": "hub", "kind": "redirect", "times": 1,
               "location": "http://localhost:{hub}/api/models/org/private-one/revision/main"})
    fetch("tokens-3", private, status=1, says="does not show it", HF_TOKEN=TOKEN)  # the second server got no token
    same(fetch("tokens-3", private, HF_TOKEN=TOKEN), private)
    assert all(r["authorization"] is None for r in hub.requests("files"))
    hub.reset({"path": "/revision/", "kind": "redirect", "location": "file:///etc/passwd"})
    fetch("tokens-4", private, status=1, says="which is no address of the web", HF_TOKEN=TOKEN)
    hub.reset({"path": "/revision/", "kind": "redirect", "location": "/api/models/org/private-one/revision/main"})
    fetch("tokens-4", private, status=1, says="leads from address to address", HF_TOKEN=TOKEN)


def test_lying_listing():
    good = {"type": "file", "oid": "a" * 40, "size": 3, "path": "x"}
    lies = {"../../../escaped": "leads out of the folder", "/tmp/escaped": "leads out of the folder",
            "a/../../b": "leads out of the folder", "a\\b": "leads out of the folder", "a\x1b[31mb": "leads out of the folder",
            "config.json": "twice", "config.json/x": "below a file", "": "leads out of the folder"}
    for number, (path, words) in enumerate(lies.items()):
        hub.reset({"path": "/tree/", "kind": "listing", "entries": [good | {"path": path}]})
        fetch(f"lies-{number}", "org/tiny", status=1, says=words)
        assert not blobs(f"lies-{number}")
    for number, change in enumerate(({"oid": "../../x"}, {"size": -1}, {"size": 1 << 60}, {"lfs": {"oid": "../" * 20, "size": 1}},
                                     {"lfs": {"oid": "", "size": 1}}, {"path": 3})):
        hub.reset({"path": "/tree/", "kind": "listing", "entries": [good | change]})
        fetch(f"lies-b{number}", "org/tiny", status=1, says="/tree/")
        assert not blobs(f"lies-b{number}")
    hub.reset({"path": "/tree/", "kind": "next_page", "location": "http://localhost:{files}/more"})
    fetch("lies-c", "org/tiny", status=1, says="the listing goes on at another server", HF_TOKEN=TOKEN)
    assert not hub.requests("files")
    # a mirror that passes on the name of the server that it copies: the page is asked of the mirror
    hub.reset({"path": "/tree/", "kind": "next_page", "location": "http://localhost:{files}{page}"})
    fetch("next-page", "org/tiny", HF_TOKEN=TOKEN)
    assert not [request for request in hub.requests("files") if "/tree/" in request["path"]]
    for name, page in (("circle-a", "{path}?recursive=true&expand=false"), ("circle-b", "{path}?recursive=true&expand=false&cursor=0")):
        hub.reset({"path": "/tree/", "kind": "next_page", "location": page})
        fetch(name, "org/tiny", status=1, says="no end" if name == "circle-a" else "twice")
        assert len(hub.requests("hub")) <= 4


def test_two_processes():
    hub.reset({"path": "safetensors", "server": "files", "kind": "slow", "bytes_per_second": 300_000})
    running = [subprocess.Popen([PROGRAMS / "fetch", "org/tiny"], env=hub.environment("shared"), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    answers = [process.communicate(timeout=60) for process in running]
    assert all(process.returncode == 0 for process in running), answers
    assert len({out for out, _ in answers}) == 1
    assert any("another process is downloading model.safetensors; waiting for it" in error for _, error in answers)
    same(pathlib.Path(answers[0][0].strip()))
    assert len(hub.requests("files")) == 1, hub.requests("files")


def run_group(tests):
    """Runs these tests with a server and caches of their own."""
    global WORK, hub
    WORK = WORK / next(iter(tests))
    WORK.mkdir()
    hub = Hub(WORK)
    fill(hub.root)
    try:
        run_tests(tests)
    finally:
        hub.process.terminate()


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    # The groups run side by side, as most of their time is waiting.
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    groups = [multiprocessing.get_context("fork").Process(target=run_group, args=(dict(tests[first::7]),)) for first in range(7)]
    for group in groups:
        group.start()
    for group in groups:
        group.join()
    sys.exit(any(group.exitcode != 0 for group in groups))
