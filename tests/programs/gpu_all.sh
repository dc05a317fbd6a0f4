#!/bin/bash
# `bench/gpu all` from end to end with programs that only look like GPU programs (gpu_rehearsal.sh has the true
# ones). Every stage goes wrong once, by a program that fails, crashes or hangs: its verdict says why, the others
# have theirs, and the next run does what has not passed.
# usage: gpu_all.sh CHECKOUT SCRATCH
set -euo pipefail

checkout=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"/{bin,programs,out}
log=$scratch/log
touch "$log"
# the interpreter itself first: hundreds of programs are run, and python3 may be a script that chooses one
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))')
export OUT=$scratch/out PATH="$scratch/bin:$python:$PATH" PYTHONDONTWRITEBYTECODE=1

cat >"$scratch/bin/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in
*compute_cap*) echo "NVIDIA Imagined, 123.4, 81559 MiB, 9.0, GPU-0a1b2c3d-4e5f" ;;
-L) for i in $(seq "${GPUS:-1}"); do echo "GPU $i: NVIDIA Imagined"; done ;;
*) echo "1980 MHz, 700 W, 60" ;;
esac
END
printf '#!/bin/sh\nshift 4\nexec "$@"\n' >"$scratch/bin/compute-sanitizer"
printf '#!/bin/sh\nwhile [ "$1" != -n ]; do shift; done\nshift 2\nexec "$@"\n' >"$scratch/bin/mpirun"
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/ncu"
chmod +x "$scratch"/bin/*
rm "$scratch/bin/ncu"
for name in gpu_tests gpu_step gpu_rates peer test_gpu pretrain prepare train_tokenizer; do
  cp "$checkout/tests/programs/gpu_program.py" "$scratch/programs/$name"
done
mkdir -p "$scratch/packages/cu13/lib"

fail() {
  echo "gpu_all.sh: $*" >&2
  cat "$scratch/said" >&2
  exit 1
}
all() {
  python3 "$checkout/bench/gpu" all --build "$scratch/build" --programs "$scratch/programs" \
    --python "$scratch/programs/peer" --seconds 0.01 "$@" >"$scratch/said" 2>&1
}
page() { echo "$OUT"/gpu-nvidia-imagined-*-page.md; }
has() { # text
  grep -qF -- "$1" "$(page)" || { cp "$(page)" "$scratch/said"; fail "the page lacks: $1"; }
}
verdict() { # stage, verdict, beginning of why
  grep -qF -- "| $1 | $2 | $3" "$(page)" ||
    { cp "$(page)" "$scratch/said"; fail "$1 is not $2: $3"; }
}
forget() { rm -rf "$OUT" "$scratch/build/results"; mkdir "$OUT"; : >"$log"; }

# all goes well, on one GPU
all || fail "does not succeed"
grep -q "^14 of 14 stages are to be run, in at most 1.. min" "$scratch/said" || fail "no estimate"
for stage in build first ops model step speed memory profile trainer big sanitizer ranks documents; do
  verdict $stage passed ""
done
verdict gpus skipped "there is one GPU here"
verdict first passed "2 of 2"
for text in "| 1 × NVIDIA Imagined, 81559 MiB, compute capability 9.0 |" "| 123.4 |" "| ops/operations | ok |" \
  "| 125m | b | 500,000 | 45.0 % | 5" "| 125m | b | 500,000 | 45.0 % | 400,000 (×1.25) |" \
  "125m/b: transformers did not run: there is no such model" \
  "| 125m/b, offload | 4.000 | 4.000 | to the byte | 0.031 | 0.031 | 8.000 |" \
  "| products, forward | 7.00 | 8." "| attention, forward | 2.00 | 4.3" "| everything else | 1.00 |" \
  "| trainer/pretrain, 1 GPU | 1 | 500,000 | 100 % | 10.000 | 0.333 |"; do
  has "$text"
done

# what has passed is not run again, but named with --again it is, alone
: >"$log"
all || fail "does not succeed again"
[ ! -s "$log" ] || fail "runs again what has passed"
all --again memory || fail "--again"
[ "$(sort -u "$log" | cut -d' ' -f1 | sort -u)" = gpu_step ] || fail "--again memory runs something else"
all no-such-stage && fail "takes any stage"

# several GPUs
GPUS=4 all || fail "several GPUs"
verdict gpus passed "4 of 4"
has "| gpus/pretrain, 4 GPUs | 4 | 1,800,000 | 90 % |"
has "| gpus/pretrain by mpirun, 2 GPUs | 2 |"

# Every stage goes wrong: its verdict says how, the others come to theirs, and the next run mends them all.
# Of those that hang, which takes the time of their limits, there is one of each program.
trap 'test ! -e "$scratch/children" || xargs -r kill <"$scratch/children" 2>/dev/null || true' EXIT
declare -A of=([ops]=exchanges [model]="golden numbers" [memory]="125m/b" [profile]="125m/b"
  [trainer]="pretrain, 1 GPU" [big]="125m, length 32768" [sanitizer]="memcheck, a step" [ranks]=ring
  [gpus]=exchanges [documents]=memcheck)
broken() { # how, limit in seconds, why
  local stage
  GPUS=2 INJECT=$(printf "%s:$1 " "${where[@]}") all --again --limit "$2" && fail "succeeds where programs $1"
  for stage in "${!of[@]}"; do verdict "$stage" "**failed**" "${of[$stage]}: $3"; done
  for stage in build first step speed; do verdict $stage passed ""; done
  GPUS=2 all || fail "the next run does not mend what programs did that $1"
  for stage in "${!of[@]}"; do verdict "$stage" passed ""; done
}
where=(gpu_tests:exchanges_test gpu_tests:golden_test gpu_tests:ring_test gpu_tests:=MPT gpu_tests:documents_test gpu_step:--tuned
  gpu_step:--profile gpu_step:32768 pretrain:run.yaml)
broken fail 60 "some.cpp:7: ERROR: CHECK( 1 == 2 ) is NOT correct!"
broken crash 60 "ended by SIGSEGV"
where=(gpu_tests:ring_test gpu_step:--profile pretrain:run.yaml)
of=([profile]="125m/b" [trainer]="pretrain, 1 GPU" [ranks]=ring)
broken hang 4 "stopped after "

# stages that others need: these are not run, and say so
alone() { # INJECT, stage, why; stages that need it
  local inject=$1 stage=$2 why=$3 other
  shift 3
  INJECT=$inject all --again && fail "succeeds with $inject"
  verdict "$stage" "**failed**" "$why"
  for other in "$@"; do verdict "$other" skipped "it needs $stage, which has not passed"; done
}
alone gpu_step:16:crash step "125m/b: ParallelLM: ended by SIGSEGV (and 1 more)" speed memory profile
verdict trainer passed ""
alone "gpu_tests:elements*<float>:fail" first "a kernel: some.cpp:7" ops model step trainer big sanitizer ranks gpus documents
verdict speed skipped "it needs step, which has not passed"
all || fail "does not recover"
for how in fail crash; do # in its turns with PyTorch
  INJECT=gpu_step:125m:$how all --again speed && fail "takes a speed that was not measured"
  verdict speed "**failed**" "125m/b: ParallelLM: "
done

# programs that end well and are wrong
INJECT="gpu_step:--tuned:wrong gpu_step:32768:wrong pretrain:run.yaml:wrong" all --again memory big trainer speed &&
  fail "takes wrong results"
verdict memory "**failed**" "125m/b: 4294967297 bytes were allocated, 4294967296 were planned (and 5 more)"
verdict big "**failed**" "125m, length 32768: error: the loss of a step at length 32768 is None"
verdict trainer "**failed**" "pretrain, 1 GPU: error: the losses of 30 steps are [9.0, 9.0"
verdict speed passed "2 of 2"
has "| 125m/b | 4.000 | 4.000 | **not as planned** |"
INJECT=gpu_step:--tuned:greedy all --again memory && fail "takes more scratch than was planned"
verdict memory "**failed**" "125m/b: operations took 36700160 bytes of scratch, 33554432 were planned (and 5 more)"
INJECT=pretrain:run.yaml:mute all trainer && fail "takes no losses"
all || fail "does not mend what was wrong"

# programs that are not here, and a driver that is killed: its page says so, and the next run goes on
rm "$scratch/programs/pretrain" "$scratch/bin/compute-sanitizer"
if [ ! -e /usr/local/cuda/bin/compute-sanitizer ]; then
  all --again sanitizer || fail "a tool that is not here is a failure"
  verdict sanitizer skipped "compute-sanitizer is not here"
fi
if [ ! -e "$checkout/build/apps/pretrain" ]; then
  all --again trainer || fail "a program that is not here is a failure"
  verdict trainer passed "1 of 3; without pretrain, 1 GPU: pretrain is not in build/"
fi
cp "$checkout/tests/programs/gpu_program.py" "$scratch/programs/pretrain"
forget
INJECT=gpu_tests:golden_test:hang python3 "$checkout/bench/gpu" all --build "$scratch/build" \
  --programs "$scratch/programs" --python "$scratch/programs/peer" >"$scratch/said" 2>&1 &
driver=$!
for _ in $(seq 300); do
  grep -q "golden_test" "$log" && break
  sleep 0.1
done
kill -9 $driver
wait $driver 2>/dev/null || true
verdict ops passed "2 of 2"
verdict model "**failed**" "ended from outside"
has "| step | not run |"
: >"$log"
all || fail "does not go on after it was killed"
verdict model passed "3 of 3"
grep -q "exchanges_test" "$log" && fail "does again what had passed before it was killed"

# a build that goes wrong: all the rest needs it
printf '#!/bin/sh\nexec "$(dirname "$0")/../programs/cmake" "$@"\n' >"$scratch/bin/cmake"
cp "$checkout/tests/programs/gpu_program.py" "$scratch/programs/cmake"
chmod +x "$scratch/bin/cmake"
for how in fail crash hang; do
  forget
  INJECT=cmake:gpu_build:$how python3 "$checkout/bench/gpu" all --limit 2 --build "$scratch/build" \
    --python "$scratch/programs/peer" >"$scratch/said" 2>&1 && fail "succeeds without programs"
  grep -q "programs: .*\(CHECK( 1 == 2 )\|ended by SIGSEGV\|stopped after 2 s\)" "$(page)" ||
    fail "does not say what became of the build"
  verdict first skipped "it needs build, which has not passed"
done
echo "gpu_all.sh: ok"
