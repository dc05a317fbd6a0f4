#!/usr/bin/env bash
# Checkpoints on the nodes' own disks, a copy on the neighbour's: two nodes of two ranks, of which one is
# killed between two saves into the shared folder and its disk is lost, go on from the other's to the bytes
# of a run that nobody disturbed, in another layout, too.
source "$(dirname "$0")/../common.sh"
export TMPDIR=$PWD # what a killed launch leaves
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
sed -i '/^ranks:/d' small.yaml

long=(max_duration=30ba save_interval=1000ba device_train_microbatch_size=3 reduction_order=canonical)
disks='local_save_folder=disk{node_rank}/run'
train save_folder=calm ranks=4 "${long[@]}"

node() { # number, folder, options of launch
  exec timeout 200 "$programs/launch" -n 2 --nodes 2 --node "$1" --rendezvous "meet-$2" --interface lo "${@:3}" \
    pretrain small.yaml "save_folder=$2" "$disks" local_save_interval=2ba dist_timeout=20 "${long[@]}" \
    > "$2-$1.log" 2>&1
}
shown() { cat ./*.log log >&2; fail "$1"; }
batch_of() { sed -nE 's/.*ep[0-9]+-ba([0-9]+)".*/\1/p' "$1/local.json" 2> /dev/null || true; }
reached() { # folder, batch: waits for such a checkpoint on the nodes' disks
  until (($(batch_of "$1" || true) + 0 >= $2)); do
    kill -0 "${nodes[0]}" 2> /dev/null || shown "the run ended before it had saved"
    sleep 0.02
  done
}
same() { # folder
  "$programs/checkpoint" diff calm "$1" > log 2>&1 || shown "$1 ends otherwise than a run that nobody disturbed"
}
start() { # folder, options of launch
  rm -rf disk0 disk1
  for i in 0 1; do
    node $i "$@" & nodes[i]=$!
  done
}

# Cases mostly wait, so they run at the same time, each in its own folder.
parts=() names=()
part() { # name: a function
  mkdir "$1"
  (
    trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
    cd "$1"
    ln -s ../data ../tokenizer ../small.yaml ../calm .
    "$@"
  ) &
  parts+=($!) names+=("$1")
}

# a node is lost with its disk, whichever: one node of three ranks goes on from the other's
lost_node() {
  local lost=${1#lost_node_}
  start lost$lost
  reached lost$lost 6
  kill -KILL "$(pgrep -P "${nodes[$lost]}")" # its launch, and with it its ranks
  for i in 0 1; do wait "${nodes[i]}" 2> /dev/null && shown "node $i ended well without the other"; done
  [[ ! -e lost$lost/latest ]] || shown "there was a save into the shared folder"
  rm -rf disk$lost
  ((lost == 1)) || mv disk1 disk0 # the node that is left is the first now
  saved=$(batch_of lost$lost)
  train "save_folder=lost$lost" "$disks" ranks=3 zero_stage=3 "${long[@]}" log_to_console=true
  grep -q "took the local checkpoint ep[0-9]*-ba$saved from 1 node" log || shown "it is not said what is gone on from"
  grep -q "resumed lost$lost/ep[0-9]*-ba$saved at batch $saved" log || shown "it does not go on from there"
  same lost$lost
}
lost_node_0() { lost_node lost_node_0; }
lost_node_1() { lost_node lost_node_1; }

# a rank is killed, and its disk is empty when launch starts all again
lost_disk() {
  start again --restarts 1
  reached again 6
  rm -rf disk1
  kill -KILL "$(pgrep -P "$(pgrep -P "${nodes[0]}")" | tail -n 1)"
  for i in 0 1; do wait "${nodes[i]}" || shown "node $i was not started again"; done
  grep -q 'launch: starting again, 1 of 1 times' again-0.log || shown "nothing was killed"
  grep -q 'took the local checkpoint ep[0-9]*-ba[0-9]* from 2 nodes' again-0.log || shown "it does not go on from the nodes' disks"
  same again
}

for name in lost_node_0 lost_node_1 lost_disk; do part $name; done

# the same over MPI: machines with their own host names, and at one path each its own disk
mpiexec=${3:-}
machine='machine=$((OMPI_COMM_WORLD_RANK / 2)); hostname "machine$machine"; mount --bind "disk$machine" scratch; exec "$@"'
if [[ -n $mpiexec ]] && unshare --uts --mount true 2> /dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  rm -rf disk0 disk1
  mkdir disk0 disk1 scratch
  machines() { # log
    timeout 200 "$mpiexec" --oversubscribe -n 4 unshare --uts --mount bash -c "$machine" _ "$programs/pretrain" small.yaml \
      save_folder=mpi local_save_folder=scratch/run local_save_interval=2ba dist_timeout=20 "${long[@]}" log_to_console=true > "$1" 2>&1
  }
  machines mpi-0.log & nodes=($!)
  reached mpi 6
  kill -KILL "$(pgrep -n -f "^$programs/pretrain .*save_folder=mpi")"
  wait "${nodes[0]}" && shown "the run ended well without a rank"
  rm -rf disk1/*
  machines mpi-1.log || shown "it does not go on over MPI"
  grep -q 'took the local checkpoint ep[0-9]*-ba[0-9]* from 2 nodes' mpi-1.log || shown "it does not go on from the machines' disks"
  same mpi
  echo "the same over MPI, on two machines by their host names"
fi

for i in "${!parts[@]}"; do wait "${parts[i]}" || fail "${names[i]}"; done
echo "two nodes, one killed with its disk: the other's copies suffice, on three ranks of ZeRO 3, too"
echo "a killed rank and a lost disk under launch --restarts: the same bytes"

# two runs cannot have one disk's folder
"$programs/pretrain" small.yaml save_folder=first local_save_folder=one "${long[@]}" max_duration=100000ba ranks=1 > first.log 2>&1 &
until compgen -G 'one/.lock-*' > /dev/null; do sleep 0.02; done
sleep 0.5
"$programs/pretrain" small.yaml save_folder=second local_save_folder=one ranks=1 > log 2>&1 && shown "two runs save into one folder"
grep -q 'error: one: another program is writing here (process .*); wait for it' log || shown "the second is not refused"
kill -KILL $!
echo "a folder on a node's disk is one run's alone"
