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

# the driver as a module, for what is asked of its functions
export PYTHONPATH=$scratch
cat >"$scratch/load.py" <<END
import importlib.machinery, importlib.util, sys
sys.path.insert(0, "$checkout/bench")
loader = importlib.machinery.SourceFileLoader("gpu", "$checkout/bench/gpu")
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", loader))
loader.exec_module(gpu)
END

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
if [ ! -e /dev/nvidia0 ]; then
  gpu ops || fail "fails where there is no GPU"
  grep -q "skipped ops: there is no GPU here" "$scratch/said" || fail "does not say that it skips"
  [ -z "$(ls "$OUT")" ] || fail "writes results without a GPU"
fi

# a GPU, and programs, that are not there
cat >"$scratch/bin/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in
*compute_cap*) echo "NVIDIA Imagined, 123.4, 81559 MiB, 9.0, ${CARD:-GPU-0a1b2c3d-4e5f}" ;;
*) echo "1980 MHz, 700 W, 60" ;;
esac
END
chmod +x "$scratch/bin/nvidia-smi"
for name in gpu_tests gpu_step gpu_rates peer; do
  cp "$checkout/tests/programs/gpu_program.py" "$scratch/programs/$name"
done
mkdir -p "$scratch"/packages/{cu13,cudnn,nccl}/{include,lib} "$scratch/headers"
touch "$scratch"/packages/cu13/{include/cublasLt.h,lib/libcublasLt.so.13} \
  "$scratch"/packages/cudnn/{include/cudnn_graph.h,lib/libcudnn.so.9} \
  "$scratch"/packages/nccl/{include/nccl.h,lib/libnccl.so.2}

# what the toolkit lacks is PyTorch's, what it has is not
python3 -B - "$scratch" <<'END' || fail "libraries of PyTorch, or a second run"
import pathlib, sys, types
from load import gpu
scratch = pathlib.Path(sys.argv[1])
gpu.options = types.SimpleNamespace(python=str(scratch / "programs/peer"))
gpu.system_headers = lambda: [scratch / "headers"]
packages = scratch / "packages"
cudnn = [f"-DParallelLM__cudnn_INCLUDE={packages}/cudnn/include",
         f"-DParallelLM__cudnn_LIBRARY={packages}/cudnn/lib/libcudnn.so.9"]
nccl = [f"-DParallelLM__libnccl_INCLUDE={packages}/nccl/include",
        f"-DParallelLM__libnccl_LIBRARY={packages}/nccl/lib/libnccl.so.2"]
products = [f"-DCMAKE_CXX_FLAGS=-idirafter {packages}/cu13/include",
            f"-DCUDA_cublasLt_LIBRARY={packages}/cu13/lib/libcublasLt.so.13"]
assert gpu.borrowed() == cudnn + nccl + products, gpu.borrowed()
(scratch / "headers/cublasLt.h").touch()
assert gpu.borrowed() == cudnn + nccl, gpu.borrowed()
(scratch / "headers/nccl.h").touch()
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

# what of a unit is written down, and when it is tried again
python3 -B - "$scratch" <<'END' >"$scratch/said" 2>&1 || fail "units that end badly"
import pathlib, sys, time, types
from load import gpu
scratch = pathlib.Path(sys.argv[1])
gpu.options = types.SimpleNamespace(python="python3", rehearse=False, again=False, build=scratch / "units")
gpu.os.environ["OUT"] = str(scratch / "units/out")
about = {"gpu": "one", "uuid": "GPU-1", "commit": "0", "driver": "", "memory": "", "cuda": "",
         "cudnn": "", "torch": "", "transformers": ""}
def stage():
    return gpu.Stage(gpu.Results(about), "some")

def raises(problem):
    def work():
        raise problem
    return work

# a unit's failure is its own
one = stage()
for problem in (gpu.Problem("word"), OSError("word"), ValueError("word"), KeyError("word"),
                IndexError("word")):
    one.unit(type(problem).__name__, raises(problem))
one.unit("last", lambda: (True, {}))
units = gpu.Results(about).units
assert units.pop("some/last")["ok"] and len(units) == 5 and not one.complete and one.again
assert all(not unit["ok"] and "word" in unit["result"]["problem"] for unit in units.values()), units

# what its time cut short twice has failed, and says why
gpu.STAGE_SECONDS, calls = 2.5, []
def slow():
    calls.append(1)
    time.sleep(0.6)
    return False, {"ParallelLM": {"problem": "too slow"}}
def tried(begin=0.0):
    one = stage()
    one.end -= begin
    one.unit("slow", slow, at_least=0)
    return one.complete, one.again
assert tried() == (False, True) and len(calls) == 1
assert tried(begin=1) == (False, True) and len(calls) == 1  # waits for nearly all of a stage's time
assert tried() == (False, False) and len(calls) == 2
assert tried() == (False, False) and len(calls) == 2
assert gpu.problem_of(gpu.Results(about).units["some/slow"]["result"]) == "ParallelLM: too slow"

# what somebody ended counts as cut short
try:
    stage().unit("ended", raises(KeyboardInterrupt()), at_least=0)
except KeyboardInterrupt:
    pass
assert gpu.Results(about).cut_short("some/ended") == 1

# losses of ours between those of theirs, or as far outside as theirs are apart
def band(ours, theirs):
    runs = {**{f"training/ParallelLM, seed {i + 1}": loss for i, loss in enumerate(ours)},
            **{f"training/PyTorch, seed {i + 1}": loss for i, loss in enumerate(theirs)}}
    judged = gpu.gpu_table.loss_band({key: {"ok": True, "result": {"losses": [9.0] + [loss] * 20}}
                                      for key, loss in runs.items()})
    return judged and judged["inside"]
assert band([3.0], [3.0]) is None and band([], [3.0, 3.1]) is None
assert band([2.95, 3.24], [3.125, 3.0, 3.0625]) is True
assert band([3.0, 3.26], [3.125, 3.0]) is False and band([2.87], [3.125, 3.0]) is False
END

# a GPU that nvidia-smi does not tell of: the driver does, or it is said that something is wrong
mkdir -p "$scratch/driver" "$scratch/no-smi"
cat >"$scratch/driver/cuda.c" <<'END'
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return getenv("NO_DEVICE") ? 100 : (int)flags; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal + 7; return 0; }
int cuDeviceGetName(char* name, int length, int device) {
  strncpy(name, "NVIDIA Unseen", length);
  return device != 7;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = (size_t)80 << 30; return device != 7; }
int cuDeviceGetUuid_v2(char* uuid, int device) { memset(uuid, 0xab, 16); return device != 7; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
  return device != 7;
}
int cuDriverGetVersion(int* version) { *version = 13010; return 0; }
END
cc -shared -fPIC -o "$scratch/driver/libcuda.so.1" "$scratch/driver/cuda.c"
cat >"$scratch/card.py" <<'END'
import pathlib, sys
from load import gpu
gpu.DEVICE = pathlib.Path(sys.argv[1])
print(gpu.card())
END
printf '#!/bin/sh\nexit 9\n' >"$scratch/no-smi/nvidia-smi"
chmod +x "$scratch/no-smi/nvidia-smi"
card() { # device file
  PATH=$scratch/no-smi:$PATH LD_LIBRARY_PATH=$scratch/driver \
    python3 -B "$scratch/card.py" "$1" >"$scratch/said" 2>&1
}
card /nowhere || fail "the driver's GPU"
grep -q "'NVIDIA Unseen', .*'81920 MiB', .*'9.0', .*'GPU-abababab" "$scratch/said" ||
  fail "does not ask the driver"
export NO_DEVICE=1
card /nowhere && grep -qx None "$scratch/said" || fail "finds a GPU where none is"
card /dev/null && fail "takes a GPU that cannot be used for none"
grep -q "cuInit failed with error 100" "$scratch/said" || fail "does not say what is wrong"
unset NO_DEVICE

# what is carried, and what is built, in this order; a folder that is older than the tree is noticed
cat >"$scratch/bin/cmake" <<'END'
#!/bin/sh
echo "cmake $*" >>"$(dirname "$0")/../log"
test "$1" = --build || exit 0
mkdir -p "$2/bin"
for name in gpu_tests gpu_step gpu_rates; do echo built >"$2/bin/$name"; done
END
printf '#!/bin/sh\necho "release 13.0, V13"\n' >"$scratch/bin/nvcc"
chmod +x "$scratch/bin/cmake" "$scratch/bin/nvcc"
python3 -B - "$scratch" <<'END' >"$scratch/said" 2>&1 || fail "carry or build"
import pathlib, shutil, sys, types
from load import gpu
scratch = pathlib.Path(sys.argv[1])
tree = scratch / "tree"
for file in ("include/a.hpp", "bench/gpu", "apps/kernels/a.cu"):
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text("x")
gpu.ROOT, gpu.CARRY = tree, tree / "bench/carry"
gpu.options = types.SimpleNamespace(python=str(scratch / "programs/peer"), programs=None,
                                    build=tree / "build-gpu")
has_git = True
def text_of(command, **options):
    return "" if command[0] == "git" and (not has_git or command[1] == "diff") else "abcdef012345"
gpu.text_of = text_of
def commit():
    gpu.commit.cache_clear()
    return gpu.commit()

gpu.carry(with_programs=True)
assert (gpu.CARRY / "include/doctest/doctest.h").exists() and (gpu.CARRY / "include/xxhash.h").exists()
assert "CMAKE_CUDA_ARCHITECTURES=90-real" in (scratch / "log").read_text()
assert commit() == "abcdef012345"
has_git = False
assert commit() == "abcdef012345"
text_of_none, gpu.text_of = gpu.text_of, lambda command, **options: "another00000"
assert commit() == "abcdef012345"  # a git of another commit came along
gpu.text_of = text_of_none
assert gpu.program("gpu_step") == gpu.CARRY / "bin/gpu_step"
shutil.rmtree(tree / "build-gpu")
(tree / "bench/results").mkdir()
(tree / "bench/results/gpu.txt").write_text("x")  # is no source
gpu.build(60, "90-real")  # nothing to do
assert not (tree / "build-gpu").exists() and commit() == "abcdef012345"
(tree / "include/a.hpp").write_text("changed since it was carried")
assert commit().startswith("abcdef012345-") and len(commit()) == 19, commit()
try:
    gpu.program("gpu_step")
    sys.exit("takes programs of another tree")
except gpu.Problem:
    pass
gpu.build(60, "80-real")
assert gpu.program("gpu_step") == tree / "build-gpu/bin/gpu_step"
assert "CMAKE_CUDA_ARCHITECTURES=80-real" in (scratch / "log").read_text()
END
rm "$scratch/bin/cmake" "$scratch/bin/nvcc" "$log"

# what fails is written down and done again; what is done is not
touch "$scratch/programs/break"
gpu ops && fail "succeeds although a test failed"
units=$(runs gpu_tests)
grep -q "ops/exchanges: ok" "$scratch/said" || fail "does not go on after a failure"
rm "$scratch/programs/break"
gpu ops || fail "does not succeed"
[ "$(runs gpu_tests)" = $((units + 1)) ] || fail "does again what is done, or not what failed"
gpu ops || fail "does not succeed when all is done"
[ "$(runs gpu_tests)" = $((units + 1)) ] || fail "does again what is done"
rm -rf "$scratch/build"
gpu ops || fail "does not succeed when only \$OUT is left"
[ "$(runs gpu_tests)" = $((units + 1)) ] || fail "does not find what is done in \$OUT"
touch "$scratch/programs/skip"
gpu ops --again && fail "takes a skipped test for a success"
rm "$scratch/programs/skip"
gpu ops || fail "does not recover"

CARD=GPU-ffffffff-1 gpu || fail "does not list"
grep -q "ops .*\[not begun\]" "$scratch/said" || fail "takes another card's results for this one's"

# the other stages: a peer that does not start is no failure of ours
gpu speed || fail "speed"
touch "$scratch/programs/mute"
gpu rates && fail "takes no word for a result"
grep -q "rates/products/125m: FAILED it ended with 0 and no word" "$scratch/said" ||
  fail "does not say what failed"
grep -q "rates/sustained/1b: ok" "$scratch/said" || fail "does not go on after a program's failure"
rm "$scratch/programs/mute"
gpu rates || fail "rates"
gpu sizes || fail "sizes"
gpu variants || fail "variants"
gpu lengths || fail "lengths"
gpu ranks || fail "ranks"
printf '#!/bin/sh\nshift 4\nexec "$@"\n' >"$scratch/bin/compute-sanitizer"
chmod +x "$scratch/bin/compute-sanitizer"
gpu sanitizer || fail "sanitizer"
printf '#!/bin/sh\nshift 4\n"$@"\nexit 9\n' >"$scratch/bin/compute-sanitizer"
gpu sanitizer --again && fail "takes errors that the sanitizer found for a success"
touch "$scratch/programs/astray"
gpu training && fail "takes any loss for PyTorch's"
grep -q "training/loss beside PyTorch's seeds: FAILED" "$scratch/said" || fail "judges no losses"
rm "$scratch/programs/astray"
gpu training --again || fail "training"
touch "$scratch/programs/forget"
gpu training --again && fail "takes other bits after a resumption for the same"
rm "$scratch/programs/forget"
gpu training || fail "training"
gpu profile || true # ncu may be there, and finds no GPU
table=$(echo "$OUT"/gpu-nvidia-imagined-0a1b2c3d-*.md)
for text in "NVIDIA Imagined, commit" "Driver 123.4" "| ops/exchanges | ok | 3 | 77 |" \
  "| 125m | b | 500,000 | 45.0 % (45 met) | 40.0 % | 400,000 (×1.25) | – | ×1.2 met |" \
  "| 7b | a | 500,000 | 45.0 % (66 missed) | 40.0 % | 400,000 (×1.25) | – | ×1.0 met |" \
  "(0.88 missed) | 8.0 |" "on both sides: met." \
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
assert all_of["about"]["uuid"] == "GPU-0a1b2c3d-4e5f"
units = all_of["units"]
assert "no such model" in units["speed/125m/b"]["result"]["transformers"]["problem"]
assert units["sizes/7b/a/compile"]["result"]["ParallelLM"]["again"] == 500000.0
assert list(units["sizes/7b/a"]["result"]) == ["ParallelLM"]
assert "sizes/7b/b/transformers" in units and "sizes/7b/a/transformers" not in units
END
# the ceiling, by hand: products slowed down by 60 s, attention, and bytes
python3 - "$checkout" "$table" <<'END' || fail "the ceiling is wrong"
import json, pathlib, sys
sys.path.insert(0, sys.argv[1] + "/bench")
sys.dont_write_bytecode = True
import gpu_table
units = json.loads(pathlib.Path(sys.argv[2]).with_suffix(".json").read_text())["units"]
tokens = 16 * 2048
operations = 2 * 768 * (12 * tokens * 2304 + 6 * 4736 * 50432)
alone = 12 * 200e-6 + 6 * 600e-6
slower = operations / alone * 1e-12 / 540
moved = 12 * 768 * (28 + 40) + 4 * 50432
expected = tokens / (slower * alone + 12 * 1200e-6 + tokens * moved / 2900e9)
assert abs(gpu_table.ceiling(units, "125m", "b") / expected - 1) < 1e-12
END

# unknown stages are refused; the list says what is done
gpu no-such-stage && fail "takes any stage"
gpu || fail "does not list"
grep -q "ops .*\[$units done\]" "$scratch/said" || fail "the list does not say what is done"
echo "gpu_bench.sh: ok"
