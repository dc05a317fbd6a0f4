#!/usr/bin/env bash
# Runs that are stopped from outside: by a signal that asks, by one that kills, by a process that
# is stalled. Each ends with the status of its cause (docs/errors.md), and the next run goes on to
# the bytes of an undisturbed one.
# usage: stop.sh PROGRAMS WORK [MPIEXEC]
source "$(dirname "$0")/common.sh"
mpiexec=${3:-}

same() { # folder: holds the last checkpoint of the undisturbed run
  local name file
  name=$(basename "$(readlink calm/latest)")
  [[ $(readlink "$1/latest") == "$name" ]] || fail "$1: latest is $(readlink "$1/latest"), not $name"
  for file in "calm/$name"/*.safetensors; do
    cmp "$file" "$1/$name/$(basename "$file")" || fail "$1: $(basename "$file") differs"
  done
}
begun() { # folder process: waits for the first checkpoint of a run
  until [[ -e $1/latest ]]; do
    kill -0 "$2" 2> /dev/null || { cat log >&2; fail "the run ended before its first checkpoint"; }
    sleep 0.02
  done
}
ends() { # expected status, what log says
  [[ $status == "$1" ]] || { cat log >&2; fail "status $status, not $1"; }
  grep -qE -- "$2" log || { cat log >&2; fail "does not say '$2'"; }
}

long="max_duration=300ba save_interval=20ba"
# shellcheck disable=SC2086
train save_folder=calm $long

# A run that is stalled is followed by another after 30 s, in which the rest of this goes on; when it comes
# back while that one trains, it says so and writes nothing.
# shellcheck disable=SC2086
"$programs/pretrain" small.yaml save_folder=shared $long > old.log 2>&1 & old=$!
begun shared $old
kill -s STOP $old
# shellcheck disable=SC2086
"$programs/pretrain" small.yaml save_folder=shared $long log_to_console=true > new.log 2>&1 & new=$!
{
  until [[ -e shared/.lock-2 ]]; do sleep 0.02; done
  until grep -q 'resumed shared/' new.log; do sleep 0.02; done
  kill -s CONT $old
} &

# Of two that start at once one trains, and the other is told of it.
for one in first second; do
  # shellcheck disable=SC2086
  "$programs/pretrain" small.yaml save_folder=raced $long max_duration=1000ba > $one.log 2>&1 && touch $one &
done

for signal in TERM HUP USR1 XCPU; do
  rm -rf asked
  # shellcheck disable=SC2086
  "$programs/pretrain" small.yaml save_folder=asked $long > log 2>&1 & run=$!
  begun asked $run
  kill -s $signal $run
  [[ $signal != XCPU ]] || kill -s XCPU $run  # as the system does every second from the limit on
  status=0
  wait $run || status=$?
  ends 75 'stopped by a signal after batch [0-9]+; the same command with autoresume=true goes on'
  [[ -z $(find asked -name 'flight-*') ]] || fail "flight files stay"
done
# shellcheck disable=SC2086
train save_folder=asked $long
same asked
echo "asked to stop: saved, status 75, and the next run ended with the same bytes"

# A batch of some seconds: the first signal is answered before it ends, the second one ends the run.
until_said() { # text, process
  until grep -q -- "$1" log; do
    kill -0 "$2" 2> /dev/null || { cat log >&2; fail "the run ended before it said '$1'"; }
    sleep 0.02
  done
}
for saves in save_folder=hurried 'save_folder=null autoresume=false'; do
  : > log  # what an earlier run said is not this one's
  # shellcheck disable=SC2086
  "$programs/pretrain" small.yaml $saves global_train_batch_size=20000 > log 2>&1 & run=$!
  until_said ' per rank$' $run
  kill -s TERM $run
  until_said '^stopping after this batch or evaluation' $run
  kill -s TERM $run
  status=0
  wait $run || status=$?
  said='without saving: .* since the last checkpoint in hurried is lost$'
  [[ $saves != *null* ]] || said='; nothing is saved$'
  ends 143 "^ended at once.*$said"
done
echo "a signal is answered at once, and so is a second one, which ends the run without saving"

until [[ -e first || -e second ]]; do sleep 0.05; done
[[ -e first ]] && loser=second || loser=first
until grep -q 'error: raced: another program is writing here (process .*); wait for it' "$loser.log"; do sleep 0.05; done
echo "of two runs that began at once in one folder one trained"

status=0
"$programs/pretrain" small.yaml max_duration=5ba optimizer.lr=1e38 save_folder=far > log 2>&1 || status=$?
ends 7 'is not finite; lower the learning rate'

for policy in skip roll_back; do
  status=0
  "$programs/pretrain" small.yaml max_duration=30ba optimizer.lr=1e38 save_folder=$policy save_interval=2ba \
    on_not_finite=$policy log_to_console=true > log 2>&1 || status=$?
  ends 7 'is not finite, and 10 batches in a row would be skipped; lower the learning rate'
  manifest=$(readlink -f $policy/latest)/manifest.json
  python3 - "$manifest" << 'PYTHON' || fail "$policy: the manifest does not tell the skipped batches"
import json, sys
state = json.load(open(sys.argv[1]))["state"]
[[first, last]] = state["skipped"]
assert 1 < first < last == state["batches"], state
PYTHON
done
ends 7 'batch 4: the loss or the gradient is not finite; the run goes back to batch 2; the batches from 3 are skipped'
echo "batches that are not finite: stopped, skipped, rolled back"

for every in 0 3; do
  train save_folder=every$every max_duration=8ba threads=1 corruption_check.interval=${every}ba
done
for file in every0/latest/*.safetensors; do
  cmp "$file" "every3/latest/$(basename "$file")" || fail "ranks that check each other train something else"
done
echo "ranks that check each other: the same bytes"

if [[ -n $mpiexec ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1
  mpi=("$mpiexec" --oversubscribe -n 2 "$programs/pretrain" small.yaml)
  # shellcheck disable=SC2086
  "${mpi[@]}" save_folder=asked2 $long > log 2>&1 & run=$!
  begun asked2 $run
  kill -s USR1 $run  # what mpirun passes on
  status=0
  wait $run || status=$?
  ends 75 'stopped by a signal after batch'

  # ranks of two configurations are refused, where these come by a pipe, too
  status=0
  mkfifo same.yaml other.yaml
  cat small.yaml > same.yaml &
  { sed '/^seed:/d' small.yaml && echo 'seed: 18'; } > other.yaml &
  checked=(threads=1 save_folder=wrong max_duration=4ba)
  timeout 60 "$mpiexec" --oversubscribe -n 1 "$programs/pretrain" same.yaml "${checked[@]}" : \
    -n 1 "$programs/pretrain" other.yaml "${checked[@]}" > log 2>&1 || status=$?
  ends 1 'rank 1 reads other inputs than rank 0: the configuration other.yaml, seed: 18 on rank 1, nothing on rank 0'
  echo "ranks of two configurations were found"

  # a process that is stalled is named by its rank, process and call, and the run goes on later
  # shellcheck disable=SC2086
  "${mpi[@]}" save_folder=asked2 $long > log 2>&1 & run=$!
  until [[ -s asked2/flight-rank1.ring ]]; do sleep 0.02; kill -0 $run || { cat log >&2; fail "going on"; }; done
  sleep 0.1
  stopped=$(pgrep -P $run pretrain | tail -1)
  kill -s STOP "$stopped"
  begin=$SECONDS
  status=0
  wait $run || status=$?
  ends 4 "rank 1 \(process $stopped on .*\) is stalled: it has not run for 10 s; its last call: "
  ((SECONDS - begin < 20)) || fail "a process that is stalled was found after $((SECONDS - begin)) s"
  # shellcheck disable=SC2086
  "${mpi[@]}" save_folder=asked2 $long > log 2>&1 || { cat log >&2; fail "going on"; }
  same asked2
  echo "a rank that was stalled was named, and the next run ended with the same bytes"
fi

wait $new || { cat new.log >&2; fail "who follows a run that is stalled"; }
status=0
wait $old || status=$?
[[ $status == 1 && $(grep -c '^error' old.log) == 1 ]] ||
  { cat old.log >&2; fail "a run that was followed ended with $status, or not by one sentence"; }
grep -q "^error: shared: this run was stalled for so long that another has taken over (process $new on .*); this one has written nothing since, and ends" old.log ||
  { cat old.log >&2; fail "a run that was followed does not say so"; }
same shared
for manifest in shared/ep*/manifest.json; do
  python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["writer"]["generation"] == 2' "$manifest" ||
    fail "$manifest is not of the second run"
done
echo "a run that was stalled was followed, and wrote nothing when it came back; the same bytes at the end"
