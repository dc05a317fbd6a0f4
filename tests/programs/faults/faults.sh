#!/usr/bin/env bash
# One fault after another is done to a run of three ranks that are processes: what is said first, the status,
# the seconds until it is said and until all have ended, and that the next start goes on to the bytes of a run
# that nobody disturbed. Prints a table (bench/results). Faults that need root are left out without it.
# usage: faults.sh PROGRAMS WORK
source "$(dirname "$0")/../common.sh"
ranks=3
sed -i '/^ranks:/d' small.yaml
export TMPDIR=$PWD
run=("$programs/launch" -n $ranks pretrain small.yaml max_duration=120ba save_interval=5ba dist_timeout=30 log_to_console=true)
cleanup() {
  mapfile -t left < <(jobs -p)
  ((${#left[@]} == 0)) || kill -KILL "${left[@]}" 2> /dev/null || true
  umount disk 2> /dev/null || true
  rmdir "$group" 2> /dev/null || true
}
group=/sys/fs/cgroup/memory/parallellm-test-$$
[[ -d /sys/fs/cgroup/memory ]] || group=/sys/fs/cgroup/parallellm-test-$$
trap cleanup EXIT
now() { date +%s%N; }
since() { awk "BEGIN {printf \"%.1f\", ($(now) - $1) / 1e9}"; }

"$programs/pretrain" small.yaml max_duration=120ba save_interval=5ba save_folder=calm ranks=$ranks > log 2>&1 || fail "the undisturbed run"
printf '| fault | said first | status | seconds until it is said | until all have ended | the next start |\n|---|---|--:|--:|--:|---|\n'

# fault NAME FOLDER PATTERN COMMAND...: COMMAND is called with the process of rank 1, and again every
# tenth of a second where it is `again ...`; PATTERN is what must be said.
fault() {
  local name=$1 folder=$2 pattern=$3 repeated='' victim launcher begin spoken='' status=0 said after
  shift 3
  [[ $1 != again ]] || { repeated=yes; shift; }
  rm -rf launch-logs
  mkdir launch-logs
  "${within[@]}" "${run[@]}" "save_folder=$folder" > log 2>&1 & launcher=$!
  until [[ -e $folder/latest ]]; do
    kill -0 $launcher 2> /dev/null || { cat log >&2; fail "$name: the run did not begin"; }
    sleep 0.02
  done
  victim=$(pgrep -P $launcher pretrain | sed -n 2p)
  begin=$(now)
  "$@" "$victim"
  while kill -0 $launcher 2> /dev/null; do
    [[ -z $repeated ]] || "$@" "$victim"
    [[ -n $spoken ]] || ! grep -rqE "$pattern" log launch-logs || spoken=$(since "$begin")
    sleep 0.05
  done
  wait $launcher || status=$?
  after=$(since "$begin")
  said=$(grep -rhoE -m 1 "$pattern" log launch-logs | sed -n 1p || true)
  [[ -n $said ]] || { cat log >&2; fail "$name: it does not say $pattern"; }
  mend
  [[ $status == 0 ]] || "${run[@]}" "save_folder=$folder" > again 2>&1 || { cat again >&2; fail "$name: the next start"; }
  "$programs/checkpoint" diff calm "$folder" > different 2>&1 || { cat different >&2; fail "$name: it ends otherwise"; }
  printf '| %s | %s | %s | %s | %s | %s |\n' "$name" "$(sed -E 's/process [0-9]+ on [^ )]+/process … on …/; s/ on [a-z0-9.-]+ is slow/ on … is slow/' <<< "$said")" \
    "$status" "${spoken:-$after}" "$after" "$([[ $status == 0 ]] && echo 'not needed: the run goes on' || echo 'to the same bytes')"
}
mend() { :; }
within=() # what the run is started by

fault 'a rank is killed' killed 'rank 1 was killed by signal 9 \(Killed\)' kill -KILL
fault 'a segmentation fault' segmented 'rank 1 was killed by signal 11 \(Segmentation fault\)' kill -SEGV
fault 'a rank is stalled (SIGSTOP)' stopped 'rank 1 \(process [0-9]+ on [^)]*\) is stalled' kill -STOP
late() {
  kill -STOP "$1"
  { sleep 20; kill -CONT "$1" 2> /dev/null; } &
}
fault 'a rank is away for 20 s' late 'rank 1 \(process [0-9]+ on [^)]*\) is stalled' late
no_files() { prlimit --pid "$1" --nofile=4; }
fault 'an exception in one rank, amid exchanges' thrown 'cannot (open|create|write)[^;]*Too many open files' no_files

slowly() {
  kill -STOP "$1" 2> /dev/null || return 0
  sleep 0.25
  kill -CONT "$1" 2> /dev/null || true
  sleep 0.05
}
fault 'a rank is slow' slow 'rank 1 on [^ ]* is slow' again slowly

if ((EUID == 0)) && mkdir "$group" 2> /dev/null; then
  # all ranks in one group, as in a container, where a neighbour takes all that is left
  if [[ -e $group/memory.limit_in_bytes ]]; then echo 1G > "$group/memory.limit_in_bytes"; else echo 1G > "$group/memory.max"; fi
  within=(bash -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' "$group")
  take_memory() {
    echo 1000 > "/proc/$1/oom_score_adj" # it goes first
    bash -c 'echo $$ > "$0/cgroup.procs"; echo -1000 > /proc/self/oom_score_adj; exec timeout 30 tail /dev/zero' "$group" > /dev/null 2>&1 &
    neighbour=$!
  }
  mend() { pkill -KILL -P "$neighbour" || true; }
  fault 'no memory is left in the control group' memory 'rank 1 was killed by signal 9 [^;]*: its control group may use no more memory' take_memory
  within=()
fi
if ((EUID == 0)) && mkdir -p disk && mount -t tmpfs -o size=8m none disk 2> /dev/null; then
  fill() { head -c 20M /dev/zero > disk/filler 2> /dev/null || true; }
  mend() { rm -f disk/filler; }
  fault 'the disk is full' disk/full 'No space left on device' fill
  umount disk
fi
if ((EUID == 0)) && truncate -s 64M image && mkfs.ext4 -q image && mount -o loop,errors=remount-ro image disk 2> /dev/null; then
  # as after an error of the disk's
  sysfs=/sys/fs/ext4/$(basename "$(findmnt -no SOURCE disk)")
  mend() { umount disk; e2fsck -fp image > /dev/null 2>&1 || true; mount -o loop image disk; }
  broken_disk() { echo 1 > "$sysfs/trigger_fs_error"; }
  [[ ! -w $sysfs/trigger_fs_error ]] || fault 'the disk becomes read-only' disk/read 'Read-only file system' broken_disk
fi
