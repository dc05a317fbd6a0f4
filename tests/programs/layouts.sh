#!/usr/bin/env bash
# The same run on threads and on MPI ranks, under ZeRO 0 and 1, in other buckets: losses and gradient
# norms of every batch have the same digits; another number of ranks continues a checkpoint.
source "$(dirname "$0")/common.sh"
mpirun=${3-}

train save_folder= autoresume=false metrics_file=threads.jsonl
losses threads.jsonl > expected
[[ $(wc -l < expected) == 40 ]] || fail "expected 40 batches"
train autoresume=false zero_stage=0 bucket_bytes=4096 metrics_file=zero0.jsonl
losses zero0.jsonl | cmp - expected || fail "ZeRO stage 0 differs from stage 1"
if [[ -n $mpirun ]]; then
  sed -i '/^ranks:/d' small.yaml
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 200 \
    "$mpirun" --oversubscribe -n 2 "$programs/pretrain" small.yaml autoresume=false \
    metrics_file=mpi.jsonl > log 2>&1 || { cat log; fail "mpirun"; }
  losses mpi.jsonl | cmp - expected || fail "MPI ranks differ from threads"
  echo "2 threads and 2 MPI ranks: 40 losses and gradient norms equal in every digit"
fi
# the mathematics do not depend on the number of ranks: fp32 sums differ in the last digits only
train ranks=3 autoresume=false metrics_file=three.jsonl
paste -d' ' <(losses three.jsonl) expected | awk '{d = $2 - $5; if (d < 0) d = -d; if (d > 2e-3) bad = 1} END {exit bad}' ||
  fail "three ranks are far from two"
# a checkpoint of two ranks goes on with one
train ranks=2 save_folder=moved max_duration=20ba scheduler.t_max=40ba
train ranks=1 save_folder=moved max_duration=40ba
[[ $(readlink moved/latest) == *-ba40 ]] || fail "one rank did not finish two ranks' run"
