#!/bin/bash
# bench/gpu from end to end with programs that only look like GPU programs (gpu_rehearsal.sh has the true ones): its
# page, and what becomes of programs that fail, crash, hang or are not installed.
# usage: gpu_bench.sh CHECKOUT SCRATCH
set -euo pipefail

checkout=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"/{bin,programs,out,packages/cu13/lib}
log=$scratch/log
touch "$log"
# the interpreter itself first: many programs are run, and python3 may be a script that chooses one
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))')
export OUT=$scratch/out PATH="$scratch/bin:$python:$PATH" PYTHONDONTWRITEBYTECODE=1

fail() {
  echo "gpu_bench.sh: $*" >&2
  cat "$scratch/said" "$OUT"/*.md >&2
  exit 1
}
gpu() { # arguments; the page of the call before is removed
  rm -f "$OUT"/*.md
  python3 "$checkout/bench/gpu" --build "$scratch/build" --python "$scratch/programs/peer" --seconds 0 "$@" \
    >"$scratch/said" 2>&1
}
run() { gpu --programs "$scratch/programs" "$@"; }
has() { # text of the page
  grep -qF -- "$1" "$OUT"/*.md || fail "the page lacks: $1"
}
row() { # stage, program, result, beginning of its words
  grep -qE -- "^\| $1 \| $2 \| $3 \| [0-9]+ \| $4" "$OUT"/*.md || fail "$1/$2 is not $3: $4"
}
imitate() { # programs
  local name
  for name; do cp "$checkout/tests/programs/gpu/gpu_program.py" "$scratch/programs/$name"; done
}
imitate gpu_tests gpu_step gpu_rates peer test_gpu pretrain prepare train_tokenizer

# a machine without a GPU
printf '#!/bin/sh\nexit 9\n' >"$scratch/bin/nvidia-smi"
chmod +x "$scratch/bin/nvidia-smi"
if [ ! -e /dev/nvidia0 ]; then
  run ops || fail "fails if there is no GPU"
  grep -q "skipped: there is no GPU here" "$scratch/said" || fail "does not say that it skips"
  [ -z "$(ls "$OUT")" ] || fail "writes a page without a GPU"
fi

# all goes well, on one GPU and on several
cat >"$scratch/bin/nvidia-smi" <<'END_OF_FILE'
#!/bin/sh
for i in $(seq "${GPUS:-1}"); do echo "NVIDIA Imagined, 81559 MiB, 9.0, 123.4"; done
END_OF_FILE
printf '#!/bin/sh\nshift 4\nexec "$@"\n' >"$scratch/bin/compute-sanitizer"
printf '#!/bin/sh\nwhile [ "$1" != -n ]; do shift; done\nshift 2\nexec "$@"\n' >"$scratch/bin/mpirun"
chmod +x "$scratch"/bin/*
run all || fail "does not succeed"
for name in "first | a kernel" "ops | operations" "model | checkpoint" "big | closed forms" "ranks | ring" \
  "sanitizer | racecheck, a step" "documents | memcheck" "trainer | tests"; do
  row "${name% | *}" "${name#* | }" passed "3 cases"
done
row gpus "several GPUs" skipped "there is one GPU here"
row speed "125m/b, transformers" skipped "it did not run: there is no such model"
row trainer "mpirun, 2 ranks on 1 GPU" passed "the loss falls from 10.000 to 0.333"
row big "125m, length 32768" passed "loss 9.500"
for text in "| GPU | NVIDIA Imagined |" "| driver | 123.4 |" "| PyTorch | 1.2.3 |" \
  "| 125m/b | ParallelLM | 500,000 | 45.0 % |  | 8.0 |" "| 125m/a | torch.compile | 400,000 | 45.0 % | ×1.25 | 8.0 |" \
  "| 125m/b, offload | 4.000 | 4.000 | 0.031 | 0.031 | 8.000 |" "| 125m/b | matmul 1 x 2 x 3 | 7.00 | 12 | 600 |" \
  "| 1 GPU | 1 | 1 | 450,000 | 10.000 | 0.333 |"; do
  has "$text"
done
GPUS=4 run gpus || fail "several GPUs"
row gpus exchanges passed "3 cases"
has "| 4 GPUs | 4 | 4 | 1,800,000 |"
has "| mpirun, 2 GPUs | 2 | 2 |"
grep -q "gpus" "$scratch/said" || fail "does not say what it runs"

# chosen steps, and training
run speed training --sizes 1b,7b --forms b --lengths 2048,8192 || fail "chosen steps"
for name in 1b/b 1b/b/8192 7b/b; do has "| $name | torch.compile |"; done
grep -q "gpu_step --size 1b --form b --microbatch 2 --accumulation 8 --length 8192" "$log" || fail "other shapes"
grep -q -- "--mode transformers --size 1b --form b --microbatch 2 --accumulation 32 --length 2048" "$log" ||
  fail "eager attention takes whole microbatches"
has "| PyTorch, seed 3 | 300 | 10.000 | 0.0344 | 400,000 |"
row training resumed passed "the same bits after step 20"

# programs that go wrong, each in its way: the page has their words, and the other programs run
INJECT="gpu_tests:exchanges_test:fail gpu_tests:golden_test:crash gpu_tests:ring_test:hang gpu_tests:documents_test:mute
  gpu_step:--profile:mute gpu_step:--offload:greedy gpu_step:--beside:wrong gpu_step:32768:wrong pretrain:run.yaml:wrong
  gpu_step:--resume:wrong" run all training --limit 5 && fail "succeeds although programs failed"
failure='\*\*failed\*\*'
row ops exchanges "$failure" "some.cpp:7: ERROR: CHECK\( 1 == 2 \) is NOT correct!"
row model "golden numbers" "$failure" "ended by SIGSEGV"
row ranks ring "$failure" "stopped after 5 s"
row documents memcheck "$failure" "no case was run"
row profile 125m/a "$failure" "it ended with 0 and no word"
row memory "125m/b, offload" "$failure" "error: operations took 36700160 bytes of scratch, 33554432 were planned"
row memory "125m/b, beside" "$failure" "error: 4294967297 bytes were allocated, 4294967296 were planned"
row big "125m, length 32768" "$failure" "error: the loss of a step at length 32768 is None"
row trainer "1 GPU" "$failure" "error: the losses of 30 steps are \[9.0, 9.0"
row training resumed "$failure" "error: a resumed run has other bits"
[ "$(grep -c "$failure" "$OUT"/*.md)" = 13 ] || fail "other programs failed, too"
INJECT="gpu_step:125m:crash" run speed && fail "takes a speed that was not measured"
row speed 125m/b "$failure" "ended by SIGSEGV"
row speed 125m/a "$failure" "ended by SIGSEGV"

# what is not installed is skipped
rm "$scratch/programs/pretrain" "$scratch/bin/compute-sanitizer"
run trainer sanitizer || fail "what is not installed is a failure"
row trainer "1 GPU" skipped "pretrain is not in build/"
[ -e /usr/local/cuda/bin/compute-sanitizer ] || row sanitizer "memcheck, a step" skipped "compute-sanitizer is not"

# a driver that is killed leaves its page, and a build that goes wrong all the rest
INJECT=gpu_tests:golden_test:hang python3 "$checkout/bench/gpu" all --build "$scratch/build" --programs \
  "$scratch/programs" --python "$scratch/programs/peer" >"$scratch/said" 2>&1 &
driver=$!
for _ in $(seq 300); do
  tail -n 1 "$log" | grep -q "golden_test" && break
  sleep 0.1
done
kill -9 $driver
wait $driver 2>/dev/null || true
row ops operations passed "3 cases"
has "| memory |  | not run |"
printf '#!/bin/sh\nexec "$(dirname "$0")/../programs/cmake" "$@"\n' >"$scratch/bin/cmake"
imitate cmake
chmod +x "$scratch/bin/cmake"
INJECT=cmake:gpu_build:fail gpu all && fail "succeeds without programs"
row build programs "$failure" "some.cpp:7"
has "| first |  | not run |"
gpu build && fail "takes a build that made nothing"
row build programs "$failure" "there is no program gpu_tests"

# stages that do not exist, and the list of those that do
gpu no-such-stage && fail "takes any stage"
gpu speed --sizes 9b && fail "takes any size"
gpu || fail "does not list"
grep -q "training .*(not part of all)" "$scratch/said" || fail "the list is not right"

# libraries that the toolkit lacks are PyTorch's; what is carried is used for the tree of its sources alone
printf '#!/bin/sh\necho "release 13.0, V13"\n' >"$scratch/bin/nvcc"
cat >"$scratch/bin/cmake" <<'END_OF_FILE'
#!/bin/sh
echo "cmake $*" >>"$(dirname "$0")/../log"
test "$1" = --build || exit 0
mkdir -p "$2/bin"
for name in gpu_tests gpu_step gpu_rates; do echo built >"$2/bin/$name"; done
END_OF_FILE
chmod +x "$scratch/bin/nvcc"
PYTHONPATH=$checkout/bench python3 - "$scratch" <<'END_OF_FILE' >"$scratch/said" 2>&1 || fail "carry or build"
import pathlib
import sys
import types
import gpu_machine as machine

scratch = pathlib.Path(sys.argv[1])
tree, packages, headers = scratch / "tree", scratch / "packages", scratch / "headers"
for file in ("tree/include/a.hpp", "tree/bench/gpu", "tree/src/kernels/a.cu", "packages/cu13/include/cublasLt.h",
             "packages/cu13/lib/libcublasLt.so.13", "packages/cudnn/include/cudnn_graph.h",
             "packages/cudnn/lib/libcudnn.so.9", "headers/nccl.h"):
    (scratch / file).parent.mkdir(parents=True, exist_ok=True)
    (scratch / file).write_text("x")
machine.ROOT, machine.CARRY, machine.SYSTEM_HEADERS = tree, tree / "bench/carry", (headers,)
peer = str(scratch / "programs/peer")
expected = [f"-DParallelLM__cudnn_INCLUDE={packages}/cudnn/include",
            f"-DParallelLM__cudnn_LIBRARY={packages}/cudnn/lib/libcudnn.so.9",
            f"-DCMAKE_CXX_FLAGS=-idirafter {packages}/cu13/include",
            f"-DCUDA_cublasLt_LIBRARY={packages}/cu13/lib/libcublasLt.so.13"]
assert machine.borrowed(peer) == expected, machine.borrowed(peer)
(headers / "cublasLt.h").touch()
assert machine.borrowed(peer) == expected[:2]

options = types.SimpleNamespace(python=peer, programs=None, build=tree / "build-gpu", build_limit=60)
head = "abcdef012345"
machine.text_of = lambda *command, **more: head if "rev-parse" in command else ""


def commit():
    machine.carried_commit.cache_clear()
    machine.commit.cache_clear()
    return machine.commit()


machine.carry(options, True)
assert (machine.CARRY / "include/doctest/doctest.h").exists() and (machine.CARRY / "include/xxhash.h").exists()
log = scratch / "log"
assert "CMAKE_CUDA_ARCHITECTURES=90-real" in log.read_text()
head = "another00000"  # the tree lies in a repository of another commit
assert commit() == "abcdef012345" and machine.program("gpu_step", options) == machine.CARRY / "bin/gpu_step"
log.write_text("")
machine.build(options, "90-real")
assert log.read_text() == ""  # nothing is to be built
(tree / "include/a.hpp").write_text("changed since it was carried")
assert commit() == "another00000" and machine.program("gpu_step", options) == options.build / "bin/gpu_step"
machine.build(options, "80-real")
assert "CMAKE_CUDA_ARCHITECTURES=80-real" in log.read_text()
END_OF_FILE
echo "gpu_bench.sh: ok"
