#!/bin/bash
# `bench/gpu all --rehearse` on two GPUs that are fake: the programs are those that go on a GPU (gpu/rehearsal.cmake),
# except for nvidia-smi, compute-sanitizer and PyTorch. Then programs fail on a machine with too little memory.
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
cp "$checkout/tests/programs/gpu/gpu_program.py" "$scratch/programs/peer"
touch "$scratch/log"

cat >"$scratch/bin/nvidia-smi" <<'END_OF_FILE'
#!/bin/sh
for i in 0 1; do echo "a fake GPU, 16384 MiB, 9.0, none"; done
END_OF_FILE
printf '#!/bin/sh\nshift 4\nexec "$@"\n' >"$scratch/bin/compute-sanitizer"
chmod +x "$scratch"/bin/*
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))')
export OUT=$scratch/out PATH="$scratch/bin:$python:$PATH" PYTHONDONTWRITEBYTECODE=1 FAKE_NCCL=$scratch/nccl
unset CUDA_VISIBLE_DEVICES # which the fake machine heeds
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

fail() {
  echo "gpu_rehearsal.sh: $*" >&2
  cat "$scratch/said" "$OUT"/*.md >&2
  exit 1
}
rehearse() { # MACHINE, stages; the page of the call before is removed
  rm -f "$OUT"/*.md
  FAKE_GPUS="devices=2 $1" python3 "$checkout/bench/gpu" "${@:2}" --rehearse --build "$scratch/build" --seconds 0 \
    --programs "$scratch/programs" --python "$scratch/programs/peer" >"$scratch/said" 2>&1
}
has() { # text of the page
  grep -qF -- "$1" "$OUT"/*.md || fail "the page lacks: $1"
}

rehearse "" all || fail "does not succeed"
has "# ParallelLM on a fake GPU, a rehearsal with a tiny model"
for stage in build first ops model speed memory profile trainer big sanitizer ranks gpus documents; do
  grep -qE "^\| $stage \| .* \| passed \|" "$OUT"/*.md || fail "$stage has not passed"
done
sed -n '/^## Stages/,/^$/p; /^| stage/,/^$/p' "$OUT"/*.md # where the time went

rehearse memory=20000000 memory gpus && fail "succeeds on a machine with too little memory"
grep -q '^| memory | 125m/b | \*\*failed\*\* | [0-9]* | gpu_step: out of memory: GPU 0 could not provide' "$OUT"/*.md ||
  fail "does not say what gpu_step lacked"
grep -q '^| gpus | 2 GPUs | \*\*failed\*\* | [0-9]* | .*error: this run needs .* MiB per rank, but only' "$OUT"/*.md ||
  fail "does not say what pretrain lacked"
echo "gpu_rehearsal.sh: ok"
