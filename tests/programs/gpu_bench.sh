#!/bin/bash
# bench/gpu's own logic, with programs that only look like GPU programs: what is done is not done
# again, what failed is, nothing passes that was skipped, and every stage's results become a table.
# usage: gpu_bench.sh CHECKOUT SCRATCH
set -euo pipefail

checkout=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/bin" "$scratch/programs" "$scratch/out"
log=$scratch/log
export OUT=$scratch/out PATH="$scratch/bin:$PATH"

fail() {
  echo "gpu_bench.sh: $*" >&2
  cat "$scratch/said" >&2
  exit 1
}
gpu() {
  python3 "$checkout/bench/gpu" --build "$scratch/build" --programs "$scratch/programs" \
    --python "$scratch/programs/peer" --seconds 0.05 "$@" >"$scratch/said" 2>&1
}
runs() { grep -c "$1" "$log" || true; }

# a machine without a GPU: said, and no failure
printf '#!/bin/sh\nexit 9\n' >"$scratch/bin/nvidia-smi"
chmod +x "$scratch/bin/nvidia-smi"
gpu ops || fail "fails where there is no GPU"
grep -q "skipped ops: there is no GPU here" "$scratch/said" || fail "does not say that it skips"
[ -z "$(ls "$OUT")" ] || fail "writes results without a GPU"

# a GPU, and programs, that are not there
cat >"$scratch/bin/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in
*compute_cap*) echo "NVIDIA Imagined, 123.4, 81559 MiB, 9.0" ;;
*) echo "1980 MHz, 700 W, 60" ;;
esac
END
cat >"$scratch/program" <<'END'
#!/usr/bin/env python3
import json, os, pathlib, sys, time

name = pathlib.Path(sys.argv[0]).name
here = pathlib.Path(sys.argv[0]).parent
arguments = sys.argv[1:]
if name == "peer" and arguments[0] == "-c":
    print(here.parent / "packages" if "nvidia" in arguments[1] else "1.2.3")
    sys.exit()
# our programs may borrow PyTorch's libraries; PyTorch finds its own by itself
assert ("packages/cu13/lib" in os.environ.get("LD_LIBRARY_PATH", "")) == (name != "peer")
with open(here.parent / "log", "a") as log:
    print(name, *arguments, file=log)
given = dict(zip(arguments, arguments[1:]))
if name == "gpu_tests":
    if (here / "skip").exists():
        print("skipped: this machine has no GPU")
    broken = (here / "break").exists() and any("exchanges" in one for one in arguments)
    print("seed 77")
    print(f"[doctest] test cases:  3 | {2 if broken else 3} passed | {int(broken)} failed |")
    sys.exit(int(broken))
if name == "gpu_rates":
    size, tokens = given["--size"] if "--size" in given else "125m", int(given.get("--tokens", 1))
    what = given["--what"]
    row = {"name": "qkv", "m": tokens, "n": 2304, "k": 768, "times": 12, "microseconds": 200.0,
           "tflops": 580.0}
    results = {"products": {"products": [row]}, "sustained": {"tflops_by_second": [580.0, 540.0]},
               "copy": {"gigabytes_per_second": {"runtime": 2900.0, "kernel": 2800.0}},
               "attention": {"attention": {
                   "tokens": tokens, "length": 2048, "dim": 64, "forward_microseconds": 300.0,
                   "backward_microseconds": 900.0, "forward_tflops": 300.0,
                   "backward_tflops": 250.0}}}
    print(json.dumps({"what": what, "size": size, "tokens": tokens, **results[what]}))
    sys.exit()
if name == "peer" and given.get("--mode") == "transformers":
    sys.exit("there is no such model")
speed = 500000.0 if name == "gpu_step" else 400000.0
report = {"tokens_per_second": speed, "mfu": 0.45, "mfu_causal": 0.4, "peak_bytes": 2 ** 33}
if "--text" in given:
    assert pathlib.Path(given["--text"]).stat().st_size > 0
    steps = int(given.get("--steps", 300))
    first = 20 if "--resume" in given else 0
    if "--save" in given:
        print("saved", flush=True)
        time.sleep(600)  # until it is killed
    wrong = int((here / "forget").exists() and first > 0)
    print(json.dumps({**report, "seed": 1, "first_step": first, "checksum": 42 + wrong,
                      "losses": [10.0 / (1 + step) for step in range(first, steps)]}))
    sys.exit()
print("ready", flush=True)
for line in sys.stdin:
    print(0.001, flush=True)
if "--profile" in given:
    report["profile"] = {"step_milliseconds": 10.0, "operations": [
        {"name": "matmul 1 x 2 x 3", "milliseconds": 7.0, "calls": 12, "tflops": 600.0},
        {"name": "attention", "milliseconds": 2.0, "calls": 12}]}
print(json.dumps(report))
END
chmod +x "$scratch/bin/nvidia-smi" "$scratch/program"
for name in gpu_tests gpu_step gpu_rates peer; do cp "$scratch/program" "$scratch/programs/$name"; done
mkdir -p "$scratch"/packages/{cu13,cudnn}/{include,lib} "$scratch/headers"
touch "$scratch"/packages/cu13/{include/cublasLt.h,lib/libcublasLt.so.13} \
  "$scratch"/packages/cudnn/{include/cudnn_graph.h,lib/libcudnn.so.9}

# what the toolkit lacks is PyTorch's, what it has is not
python3 -B - "$checkout" "$scratch" <<'END' || fail "libraries of PyTorch, or a second run"
import importlib.machinery, importlib.util, pathlib, sys, types
checkout, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, checkout + "/bench")
loader = importlib.machinery.SourceFileLoader("gpu", checkout + "/bench/gpu")
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", loader))
loader.exec_module(gpu)
gpu.options = types.SimpleNamespace(python=str(scratch / "programs/peer"))
gpu.system_headers = lambda: [scratch / "headers"]
packages = scratch / "packages"
cudnn = [f"-DParallelLM__cudnn_INCLUDE={packages}/cudnn/include",
         f"-DParallelLM__cudnn_LIBRARY={packages}/cudnn/lib/libcudnn.so.9"]
products = [f"-DCMAKE_CXX_FLAGS=-idirafter {packages}/cu13/include",
            f"-DCUDA_cublasLt_LIBRARY={packages}/cu13/lib/libcublasLt.so.13"]
assert gpu.borrowed() == cudnn + products, gpu.borrowed()
(scratch / "headers/cublasLt.h").touch()
assert gpu.borrowed() == cudnn, gpu.borrowed()
(scratch / "headers/cudnn_graph.h").touch()
assert gpu.borrowed() == [], gpu.borrowed()

# what the first run measured stays, whatever becomes of the second
again = scratch / "again"
once = f"test -e {again} && exit 1; touch {again}; echo ready; read x; echo 0.1; "
stage = types.SimpleNamespace(left=lambda: 60)
reports = gpu.compare(stage, {"one": ["bash", "-c", once + "echo '{\"tokens_per_second\": 5}'"]},
                      0, together=False)
assert reports == {"one": {"tokens_per_second": 5}}, reports
END

# what fails is written down and done again; what is done is not
touch "$scratch/programs/break"
gpu ops && fail "succeeds although a test failed"
[ "$(runs gpu_tests)" = 4 ] || fail "does not go on after a failure"
rm "$scratch/programs/break"
gpu ops || fail "does not succeed"
[ "$(runs gpu_tests)" = 5 ] || fail "does again what is done, or not what failed"
gpu ops || fail "does not succeed when all is done"
[ "$(runs gpu_tests)" = 5 ] || fail "does again what is done"
rm -rf "$scratch/build"
gpu ops || fail "does not succeed when only \$OUT is left"
[ "$(runs gpu_tests)" = 5 ] || fail "does not find what is done in \$OUT"
touch "$scratch/programs/skip"
gpu ops --again && fail "takes a skipped test for a success"
rm "$scratch/programs/skip"
gpu ops || fail "does not recover"

# the other stages: a peer that does not start is no failure of ours
gpu speed || fail "speed"
gpu rates || fail "rates"
gpu sizes || fail "sizes"
gpu variants || fail "variants"
gpu lengths || fail "lengths"
gpu ranks || fail "ranks"
touch "$scratch/programs/forget"
gpu training && fail "takes other bits after a resumption for the same"
rm "$scratch/programs/forget"
gpu training || fail "training"
gpu profile || true # ncu may be there, and finds no GPU
table=$(echo "$OUT"/gpu-nvidia-imagined-*.md)
for text in "NVIDIA Imagined, commit" "Driver 123.4" "| ops/exchanges | ok | 3 | 77 |" \
  "| 125m | b | 500,000 | 45.0 % | 40.0 % | 400,000 (×1.25) | – | ×1.2 |" \
  "580 TFLOP/s in the first second, 540 in the last" "| 1b | 32768 | 500,000 |" \
  "| 350m | 4 | weights beside | 500,000 | ×1.000 |" \
  "matmul 1 x 2 x 3" "the same bits as a run"; do
  grep -qF -- "$text" "$table" || { cp "$table" "$scratch/said"; fail "the table lacks: $text"; }
done
python3 - "$OUT" <<'END' || fail "the JSON is not what the table says"
import json, pathlib, sys
file, = pathlib.Path(sys.argv[1]).glob("gpu-*.json")
all_of = json.loads(file.read_text())
assert all_of["about"]["gpu"] == "NVIDIA Imagined" and all_of["about"]["torch"] == "1.2.3"
units = all_of["units"]
assert "no such model" in units["speed/125m/b"]["result"]["transformers"]["problem"]
assert units["sizes/7b/a"]["result"]["ParallelLM"]["again"] == 500000.0
# the ceiling, by hand: products slowed down by 60 s, attention, and bytes
sys.path.insert(0, str(pathlib.Path(sys.argv[1])))
END
python3 - "$checkout" "$table" <<'END' || fail "the ceiling is wrong"
import json, pathlib, sys
sys.path.insert(0, sys.argv[1] + "/bench")
sys.dont_write_bytecode = True
import gpu_table
units = json.loads(pathlib.Path(sys.argv[2]).with_suffix(".json").read_text())["units"]
tokens = 16 * 2048
slower = 2 * tokens * 2304 * 768 / 200e-6 * 1e-12 / 540
moved = 12 * 768 * (28 + 40) + 4 * 50432
expected = tokens / (slower * 12 * 200e-6 + 12 * 1200e-6 + tokens * moved / 2900e9)
assert abs(gpu_table.ceiling(units, "125m", "b") / expected - 1) < 1e-12
END

# unknown stages are refused; the list says what is done
gpu no-such-stage && fail "takes any stage"
gpu || fail "does not list"
grep -q "ops .*\[4 done\]" "$scratch/said" || fail "the list does not say what is done"
echo "gpu_bench.sh: ok"
