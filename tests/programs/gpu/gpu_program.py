#!/usr/bin/env python3
"""Looks like a program that bench/gpu runs, by its own name: for tests of that driver alone.

In the environment, INJECT="NAME:WORD:HOW ..." makes program NAME go wrong where an argument has WORD: fail, crash,
hang (with a child that leaves its group and holds the output), mute (no word), wrong (a result that is not right),
greedy (scratch beyond the plan).
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

name = pathlib.Path(sys.argv[0]).name
folder = pathlib.Path(sys.argv[0]).parent
arguments = sys.argv[1:]
if name == "peer" and arguments[0] == "-c":
    print(folder.parent / "packages" if "nvidia" in arguments[1] else "1.2.3")
    sys.exit()
# our programs may borrow PyTorch's libraries; PyTorch finds its own by itself
assert name == "cmake" or ("packages/cu13/lib" in os.environ.get("LD_LIBRARY_PATH", "")) == (name != "peer")
with open(folder.parent / "log", "a", encoding="utf-8") as log:
    print(name, *arguments, file=log)
values = dict(zip(arguments, arguments[1:]))
fault = next((how for program, word, how in (part.split(":") for part in os.environ.get("INJECT", "").split())
              if program == name and any(word in argument for argument in arguments)), "")
if fault == "fail":
    print("some.cpp:7: ERROR: CHECK( 1 == 2 ) is NOT correct!",
          file=sys.stdout if name == "gpu_tests" else sys.stderr)
    sys.exit(1)
if fault == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if fault == "hang":
    subprocess.Popen(["sleep", "20"], start_new_session=True)  # pylint: disable=consider-using-with
    time.sleep(600)
if fault == "mute" or name in ("train_tokenizer", "cmake"):
    sys.exit()
if name == "prepare":
    pathlib.Path(values["--out_root"]).mkdir()
    sys.exit()
if name in ("gpu_tests", "test_gpu"):
    print("seed 77\n[doctest] test cases:  3 | 3 passed | 0 failed |")
    sys.exit()
if name == "pretrain":
    config = json.loads(pathlib.Path(arguments[-1]).read_text(encoding="utf-8"))
    assert config["device"] == "cuda" and pathlib.Path(config["train_loader"]["dataset"]["local"]).exists()
    ranks = config["global_train_batch_size"] // 64
    with open(config["metrics_file"], "w", encoding="utf-8") as metrics:
        for batch in range(30):
            print(json.dumps({"loss/train/total": 9.0 if fault == "wrong" else 10.0 / (1 + batch),
                              "throughput/tokens_per_sec": 450000.0 * ranks}), file=metrics)
    sys.exit()
if values.get("--mode") == "transformers":
    sys.exit("there is no such model")
report = {"tokens_per_second": 500000.0 if name == "gpu_step" else 400000.0, "mfu": 0.45, "peak_bytes": 2 ** 33,
          "loss": None if fault == "wrong" else 9.5, "planned_bytes": 2 ** 32,
          "allocated_bytes": 2 ** 32 + (fault == "wrong"), "scratch_bytes": 2 ** 25 + (3 << 20) * (fault == "greedy"),
          "planned_scratch_bytes": 2 ** 25, "device_bytes": 2 ** 33}
if "--text" in values:
    assert pathlib.Path(values["--text"]).stat().st_size > 0
    first = 20 if "--resume" in values else 0
    losses = [10.0 / (1 + step) for step in range(first, int(values.get("--steps", 300)))]
    report |= {"first_step": first, "checksum": 42 + (fault == "wrong"), "losses": losses}
if "--profile" in values:
    report["profile"] = {"step_milliseconds": 10.0, "operations": [
        {"name": "matmul 1 x 2 x 3", "milliseconds": 7.0, "calls": 12, "tflops": 600.0},
        {"name": "attention", "milliseconds": 2.0, "calls": 12}]}
print("a word on standard output", json.dumps(report), sep="\n", flush=True)  # libraries say something, too
print("warning: the last word", file=sys.stderr)
