#!/usr/bin/env bash
# The same run on threads and on MPI ranks, under all ZeRO stages and axes, in other buckets: losses and
# gradient norms of every batch have the same digits; another number of ranks continues a checkpoint.
source "$(dirname "$0")/common.sh"
mpirun=${3-}

train save_folder= autoresume=false metrics_file=threads.jsonl
losses threads.jsonl > expected
[[ $(wc -l < expected) == 40 ]] || fail "expected 40 batches"
train autoresume=false zero_stage=0 bucket_bytes=4096 metrics_file=zero0.jsonl
losses zero0.jsonl | cmp - expected || fail "ZeRO stage 0 differs from stage 1"
# from stage 2 on every microbatch is reduced: the same order of sums when there is one
train autoresume=false device_train_microbatch_size=12 metrics_file=one.jsonl
losses one.jsonl > expected_of_one
for stage in 2 3; do
  train autoresume=false device_train_microbatch_size=12 zero_stage=$stage metrics_file=one$stage.jsonl
  losses one$stage.jsonl | cmp - expected_of_one || fail "ZeRO stage $stage differs from stage 1"
done
if [[ -n $mpirun ]]; then
  sed -i '/^ranks:/d' small.yaml
  mpi() {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 200 \
      "$mpirun" --oversubscribe -n "${mpi_ranks:-2}" "$programs/pretrain" small.yaml \
      autoresume=false "$@" \
      > log 2>&1 || { cat log; fail "mpirun $*"; }
  }
  mpi metrics_file=mpi.jsonl
  losses mpi.jsonl | cmp - expected || fail "MPI ranks differ from threads"
  for stage in 2 3; do
    mpi zero_stage=$stage device_train_microbatch_size=12 metrics_file=mpi$stage.jsonl
    losses mpi$stage.jsonl | cmp - expected_of_one || fail "MPI ranks differ from threads at stage $stage"
  done
  # where mpirun binds to nothing, ranks divide the cores
  OMPI_MCA_hwloc_base_binding_policy=none mpi metrics_file=unbound.jsonl
  share=$(($(nproc) / 2))
  grep -q ", $((share > 0 ? share : 1)) threads, " log || { cat log; fail "2 MPI ranks do not divide $(nproc) cores"; }
  echo "2 threads and 2 MPI ranks: 40 losses and gradient norms equal in every digit"
fi
# the mathematics do not depend on the number of ranks: fp32 sums differ in the last digits only
near() { # metrics what
  paste -d' ' <(losses "$1") expected | awk '{d = $2 - $5; if (d < 0) d = -d; if (d > 2e-3) bad = 1} END {exit bad}' ||
    fail "$2"
}
train ranks=3 autoresume=false metrics_file=three.jsonl
near three.jsonl "three ranks are far from two"
train ranks=2 autoresume=false zero_stage=3 metrics_file=stage3.jsonl
near stage3.jsonl "stage 3 with several microbatches is far from stage 1"
train ranks=4 autoresume=false zero_stage=2 parallelism.shard=2 metrics_file=hybrid.jsonl
near hybrid.jsonl "two copies of two shards are far from two ranks"
# the model's own axes, on threads and on MPI ranks
grid=(parallelism.tensor=2 parallelism.pipeline=2)
train "${grid[@]}" ranks=4 autoresume=false zero_stage=0 metrics_file=grid.jsonl
near grid.jsonl "tensor 2 x pipeline 2 is far from two ranks"
# its step as text and as a picture, instead of a run
train "${grid[@]}" ranks=4 autoresume=false zero_stage=0 print_plan=true save_folder=planned
grep -q '^pipeline rank 1 of 2, [0-9]* microbatches: [0-9]* actions' log || fail "the plan does not tell pipeline rank 1's actions"
grep -q ' forward part 0, microbatch 0' log || fail "the plan has no forward pass"
[[ $(ls planned) == plan.svg && $(head -c 4 planned/plan.svg) == '<svg' ]] || fail "the plan's picture is not alone in its folder"
train "${grid[@]}" ranks=8 autoresume=false zero_stage=3 parallelism.sequence_parallel=true \
  metrics_file=grid3.jsonl
near grid3.jsonl "ZeRO 3 x tensor 2 x pipeline 2 is far from two ranks"
train ranks=15 parallelism.tensor=3 autoresume=false zero_stage=3 metrics_file=uneven.jsonl
near uneven.jsonl "5 unequal shares x 3 unequal slices are far from two ranks"
train ranks=4 autoresume=false parallelism.context=2 metrics_file=context.jsonl
near context.jsonl "context 2 is far from two ranks"
if [[ -n $mpirun ]]; then
  mpi_ranks=4 mpi "${grid[@]}" zero_stage=0 metrics_file=mpi_grid.jsonl
  losses mpi_grid.jsonl | cmp - <(losses grid.jsonl) || fail "the grid of MPI ranks differs from threads"
fi
# killed in the middle of its work, it is resumed in another layout
"$programs/pretrain" small.yaml "${grid[@]}" ranks=4 zero_stage=0 save_folder=killed \
  metrics_file=killed.jsonl > log 2>&1 &
for _ in {1..600}; do
  [[ -e killed/latest/manifest.json ]] && break
  sleep 0.05
done
kill -KILL $! || { cat log; fail "the run to be killed was over"; }
wait $! 2> /dev/null || true
train ranks=2 zero_stage=3 save_folder=killed metrics_file=killed.jsonl
grep -q '^resumed killed/' log || { cat log; fail "the killed run was not resumed"; }
losses killed.jsonl | sort -n -s -k1,1 | awk '{last[$1] = $0} END {for (b in last) print last[b]}' \
  | sort -n > resumed
paste -d' ' resumed expected | awk '{d = $2 - $5; if (d < 0) d = -d; if ($1 != $4 || d > 2e-3) bad = 1} END {exit bad}' ||
  fail "a run that was killed and resumed in another layout is far from two ranks"
# what cannot be is refused before anything starts
if "$programs/pretrain" small.yaml autoresume=false ranks=25 parallelism.tensor=5 \
  parallelism.pipeline=5 > log 2>&1; then
  fail "tensor 5 was accepted"
fi
grep -q 'error: parallelism: this layout is not possible:' log && grep -q '  tensor 5: n_heads 4 must' log ||
  { cat log; fail "the refusal"; }
if [[ -n $mpirun ]]; then  # by one process, though all see it
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 200 \
    "$mpirun" --oversubscribe -n 5 "$programs/pretrain" small.yaml autoresume=false \
    parallelism.tensor=5 > log 2>&1 && fail "tensor 5 was accepted under mpirun"
  [[ $(grep -c '^error: ' log) == 1 ]] && grep -q '^error: parallelism: tensor 5: n_heads 4 must' log ||
    { cat log; fail "the refusal under mpirun"; }
fi
# so is what does not fit: once, though every rank finds out, and nobody's last calls matter
large=(model.d_model=65536 model.n_heads=1024 model.n_layers=96 autoresume=false save_folder=large)
refused() { # what
  [[ $(grep -c 'this run needs ' log) == 1 ]] && grep -q '^error: this run needs ' log ||
    { cat log; fail "the refusal of what does not fit, $1"; }
  [[ ! -e large ]] || fail "what is refused leaves files, $1"
}
"$programs/pretrain" small.yaml ranks=2 "${large[@]}" > log 2>&1 && fail "too large a model was accepted"
refused "on threads"
if [[ -n $mpirun ]]; then
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 200 \
    "$mpirun" --oversubscribe -n 3 "$programs/pretrain" small.yaml "${large[@]}" > log 2>&1 &&
    fail "too large a model was accepted under mpirun"
  refused "under mpirun"
fi
# a checkpoint of two ranks of stage 3 goes on with one
train ranks=2 zero_stage=3 save_folder=moved max_duration=20ba scheduler.t_max=40ba
train ranks=1 save_folder=moved max_duration=40ba
[[ $(readlink moved/latest) == *-ba40 ]] || fail "one rank did not finish two ranks' run"
# a run that fails leaves every rank's last calls next to its checkpoints; a rank that is late is named
flight() { # folder, files of which one says so
  [[ -s $1/flight-rank0.txt ]] &&
    grep -qE ' running for .*: (split into color|agreement on|.* at .*:[0-9])' "${@:2}" ||
    fail "no rank says in ${*:2} which call it was in"
  [[ $(wc -l < "$1/flight-rank1.txt") -le 20 ]] || fail "more than 20 calls"
}
if "$programs/pretrain" small.yaml ranks=2 save_folder=late dist_timeout=0.001 > log 2>&1; then
  fail "no rank was ever a millisecond late"
fi
grep -q '^error: .* waited 0.001 s for rank' log || { cat log; fail "the deadline's message"; }
grep -q '^the last calls of every rank are in late/flight-rank0.txt and the files of the other ranks next to it$' log ||
  { cat log; fail "where the last calls are"; }
flight late late/flight-rank?.txt
if [[ -n $mpirun ]]; then
  # A folder takes the place of the link `latest` in mid-run: rank 0 fails at its next checkpoint, and
  # rank 1 hears of it.
  mkdir -p obstacle/in-the-way
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 200 \
    "$mpirun" --oversubscribe -n 2 "$programs/pretrain" small.yaml save_folder=blocked \
    max_duration=100000ba autoresume=false > log 2>&1 &
  run=$!
  until [[ -d blocked/latest && ! -L blocked/latest ]]; do
    kill -0 $run 2> /dev/null || { cat log; fail "the run to be blocked was over"; }
    if [[ -L blocked/latest ]]; then
      rm -f blocked/latest
      mv -T obstacle blocked/latest 2> /dev/null || true  # the next link is there already
    fi
    sleep 0.01
  done
  wait $run && fail "a directory stood in the way of a checkpoint's link"
  grep -q '^error: rank 1: rank 0 failed: blocked/latest: is a folder, but ' log &&
    grep -q '^the last calls of rank 1 are in blocked/flight-rank1.txt$' log ||
    { cat log; fail "what rank 1 says"; }
  flight blocked blocked/flight-rank1.txt
fi
# a run that is killed leaves every rank's calls; one that ends well leaves none
"$programs/pretrain" small.yaml ranks=3 save_folder=killed max_duration=100000ba save_interval=100000ba > log 2>&1 &
run=$!
for ((i = 0; i < 200; i++)); do [[ -s killed/flight-rank2.ring ]] && break; sleep 0.1; done
sleep 1
kill -KILL $run
wait $run 2> /dev/null || true
"$programs/flight" killed > said || { cat said; fail "what killed ranks did is not told"; }
[[ $(grep -c "^rank [012] (process $run on " said) == 3 ]] || { cat said; fail "not all ranks are told of"; }
grep -qE '^  [0-9]+ (done|running|waiting) .*: all_reduce.* at [a-z_]+\.hpp:[0-9]+$' said ||
  { cat said; fail "the calls are not told"; }
train ranks=2 save_folder=well max_duration=4ba
[[ -z $(find well -name '*.ring') ]] || fail "a run that ended well left its calls"
"$programs/flight" well 2> said && fail "calls of a run that left none"
grep -q '^error: well: there is no flight-rank<N>.ring here' said || { cat said; fail "flight's refusal"; }
