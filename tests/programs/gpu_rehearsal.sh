#!/bin/bash
# `bench/gpu all --rehearse` from end to end on two GPUs that are fake: the programs are those that go on a GPU
# (gpu/rehearsal.cmake), all but what the driver calls beside them. Then the machine goes wrong: too little memory, and a
# host that does not wait. Every stage but `build` fails on one of them, by its program's own words, or is skipped for
# one that did; the next run mends those that it is asked for.
# usage: gpu_rehearsal.sh CHECKOUT SCRATCH REHEARSED_PROGRAMS [PROGRAMS]
set -euo pipefail

checkout=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"/{bin,programs,out,nccl}
if [ ! -x "$3/pretrain" ] || [ ! -x "${4-}/prepare" ]; then
  echo "skipped: build target gpu_rehearsal, and the programs (./run build)"
  exit 77
fi
for name in gpu_tests gpu_step gpu_rates pretrain; do ln -s "$3/$name" "$scratch/programs/$name"; done
ln -s "$3/gpu_tests" "$scratch/programs/test_gpu"
for name in prepare train_tokenizer; do ln -s "$4/$name" "$scratch/programs/$name"; done
cp "$checkout/tests/programs/gpu_program.py" "$scratch/programs/peer"
touch "$scratch/log"

cat >"$scratch/bin/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in
*compute_cap*) echo "a fake GPU, none, 16384 MiB, 9.0, GPU-fa4e" ;;
-L) echo "GPU 0: a fake GPU"; echo "GPU 1: a fake GPU" ;;
esac
END
printf '#!/bin/sh\nshift 4\nexec "$@"\n' >"$scratch/bin/compute-sanitizer"
chmod +x "$scratch"/bin/*
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))')
export OUT=$scratch/out PATH="$scratch/bin:$python:$PATH" PYTHONDONTWRITEBYTECODE=1 FAKE_NCCL=$scratch/nccl
unset CUDA_VISIBLE_DEVICES # which the fake machine heeds
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

fail() {
  echo "gpu_rehearsal.sh: $*" >&2
  cat "$OUT"/*-page.md "$scratch/said" >&2
  exit 1
}
all() { # MACHINE, arguments
  local machine="devices=2 $1"
  shift
  FAKE_GPUS=$machine python3 "$checkout/bench/gpu" all --rehearse --build "$scratch/build" --seconds 0.01 \
    --programs "$scratch/programs" --python "$scratch/programs/peer" "$@" >"$scratch/said" 2>&1
}
verdict() { # stage, verdict, beginning of why
  grep -qF -- "| $1 | $2 | $3" "$OUT"/*-rehearsal-page.md || fail "$1 is not $2: $3"
}

stages=(build first ops model step speed memory profile trainer big sanitizer ranks gpus documents)
all "" || fail "does not succeed"
for stage in "${stages[@]}"; do verdict "$stage" passed ""; done
grep -qF "# A rehearsal, with a tiny model, on a fake GPU" "$OUT"/*-page.md || fail "does not say what it is"

wrong() { # MACHINE, stages
  all "$1" --again --limit 100 "${@:2}" && fail "succeeds on a machine with $1"
  return 0
}
small=memory=20000000
wrong $small memory profile big trainer gpus
verdict memory "**failed**" "125m/b: gpu_step: out of memory: GPU 0 could not provide"
verdict profile "**failed**" "125m/b: gpu_step: out of memory"
verdict big "**failed**" "125m, length 32768: gpu_step: out of memory"
verdict trainer "**failed**" "tests: $checkout/tests/gpu/trainer_test.cpp"
verdict gpus "**failed**" "exchanges: $checkout/tests/gpu/"
grep -q "error: this run needs .* MiB per rank, but only .* MiB are available" "$scratch/said" ||
  fail "pretrain does not say what it lacks"
wrong $small step speed
verdict step "**failed**" "125m/b: ParallelLM: gpu_step: out of memory"
verdict speed skipped "it needs step, which has not passed"
wrong "fault=no_host_waits seed=3" ops model sanitizer ranks
for stage in ops model sanitizer ranks; do verdict $stage "**failed**" ""; done
wrong "fault=no_host_waits seed=3" first ops
verdict first "**failed**" ""
verdict ops skipped "it needs first, which has not passed"
all "" first sanitizer || fail "the next run does not mend what the machine did"
for stage in build first sanitizer; do verdict $stage passed ""; done
verdict gpus "**failed**" ""
echo "gpu_rehearsal.sh: ok"
