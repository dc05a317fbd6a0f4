#!/usr/bin/env python3
"""Looks like a program that bench/gpu runs, by its own name: for tests of that driver alone.

In the environment, INJECT="NAME:WORD:HOW ..." makes program NAME go wrong where an argument has WORD: fail,
crash, hang (with a child that leaves its group), mute (no word), wrong (a result that is not right), greedy (scratch beyond the plan).
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

name = pathlib.Path(sys.argv[0]).name
here = pathlib.Path(sys.argv[0]).parent
arguments = sys.argv[1:]

def report(results):  # libraries have something to say, too
    print("a word on standard output", flush=True)
    print(json.dumps(results), flush=True)
    print("warning: the last word", file=sys.stderr)
if name == "peer" and arguments[0] == "-c":
    print(here.parent / "packages" if "nvidia" in arguments[1] else "1.2.3")
    sys.exit()
# our programs may borrow PyTorch's libraries; PyTorch finds its own by itself
assert ("packages/cu13/lib" in os.environ.get("LD_LIBRARY_PATH", "")) == (name != "peer")
with open(here.parent / "log", "a") as log:
    print(name, *arguments, file=log)
given = dict(zip(arguments, arguments[1:]))
how = next((how for of, word, how in (one.split(":") for one in os.environ.get("INJECT", "").split())
            if of == name and any(word in one for one in arguments)), "")
if how == "fail":
    print("some.cpp:7: ERROR: CHECK( 1 == 2 ) is NOT correct!",
          file=sys.stdout if name == "gpu_tests" else sys.stderr)
    sys.exit(1)
if how == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if how == "hang":
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    (here.parent / "children").open("a").write(f"{child.pid}\n")
    time.sleep(600)
if how == "mute":
    sys.exit()
if name in ("gpu_tests", "test_gpu"):
    if (here / "skip").exists():
        print("skipped: this machine has no GPU")
    broken = (here / "break").exists() and any("operations" in one for one in arguments)
    print("seed 77")
    print(f"[doctest] test cases:  3 | {2 if broken else 3} passed | {int(broken)} failed |")
    sys.exit(int(broken))
if name in ("train_tokenizer", "prepare"):
    sys.exit()
if name == "pretrain":
    config = json.loads(pathlib.Path(arguments[-1]).read_text())
    assert config["device"] == "cuda" and pathlib.Path(config["tokenizer"]["name"]).parent.exists()
    ranks = config["global_train_batch_size"] // 64
    with open(config["metrics_file"], "w") as out:
        for batch in range(30):
            loss = 9.0 if how == "wrong" else 10.0 / (1 + batch)
            print(json.dumps({"loss/train/total": loss, "throughput/tokens_per_sec":
                              5e5 * ranks * (0.9 if ranks > 1 else 1)}), file=out)
    sys.exit()
if name == "gpu_rates":
    size, tokens = given["--size"] if "--size" in given else "125m", int(given.get("--tokens", 1))
    what = given["--what"]
    if (here / "mute").exists() and what == "products":
        sys.exit()
    rows = [{"name": "qkv", "m": tokens, "n": 2304, "k": 768, "times": 12, "microseconds": 200.0,
             "tflops": 580.0},
            {"name": "head", "m": 4736, "n": 50432, "k": 768, "times": 6, "microseconds": 600.0,
             "tflops": 611.0}]
    results = {"products": {"products": rows}, "sustained": {"tflops_by_second": [580.0, 540.0]},
               "copy": {"gigabytes_per_second": {"runtime": 2900.0, "kernel": 2800.0}},
               "attention": {"attention": {
                   "tokens": tokens, "length": 2048, "dim": 64, "forward_microseconds": 300.0,
                   "backward_microseconds": 900.0, "forward_tflops": 300.0,
                   "backward_tflops": 250.0}}}
    report({"what": what, "size": size, "tokens": tokens, **results[what]})
    sys.exit()
if name == "peer" and given.get("--mode") == "transformers":
    sys.exit("there is no such model")
speed = 500000.0 if name == "gpu_step" else 400000.0
figures = {"tokens_per_second": speed, "mfu": 0.45, "mfu_causal": 0.4, "peak_bytes": 2 ** 33,
           "microbatch": int(given.get("--microbatch", 1)), "loss": None if how == "wrong" else 9.5,
           "planned_bytes": 2 ** 32, "allocated_bytes": 2 ** 32 + (how == "wrong"),
           "scratch_bytes": 2 ** 25 + (3 << 20) * (how == "greedy"),
           "planned_scratch_bytes": 2 ** 25, "device_bytes": 2 ** 33}
if "--text" in given:
    assert pathlib.Path(given["--text"]).stat().st_size > 0
    steps = int(given.get("--steps", 300))
    first = 20 if "--resume" in given else 0
    if "--save" in given:
        print("saved", flush=True)
        time.sleep(600)  # until it is killed
    wrong = int((here / "forget").exists() and first > 0)
    seed = int(given.get("--seed", 1))
    astray = 0.06 * (name == "gpu_step" and (here / "astray").exists())
    report({**figures, "seed": seed, "first_step": first, "checksum": 42 + wrong,
            "losses": [10.0 * (1 + 0.01 * seed + astray) / (1 + step)
                       for step in range(first, steps)]})
    sys.exit()
print("ready", flush=True)
for line in sys.stdin:
    print(0.001, flush=True)
if "--profile" in given:
    figures["profile"] = {"step_milliseconds": 10.0, "operations": [
        {"name": "matmul 1 x 2 x 3", "milliseconds": 7.0, "calls": 12, "tflops": 600.0},
        {"name": "attention", "milliseconds": 2.0, "calls": 12}]}
report(figures)
