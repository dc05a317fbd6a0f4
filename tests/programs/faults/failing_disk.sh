#!/usr/bin/env bash
# A disk that fails for a moment: what cannot be read is not taken for damaged or missing, so nothing is left out,
# renamed or removed, and the next start goes on to the bytes of a run that nobody disturbed.
# usage: failing_disk.sh PROGRAMS WORK FAILING_CALLS_LIBRARY
source "$(dirname "$0")/../common.sh"
library=$3

eio=5 read_only=30 no_locks=37 stale=116 no_links=95 timed_out=110 cannot_exchange=22 full=28
with() { # faults program arguments...
  local faults=$1 program=$2
  shift 2
  status=0
  FAILING_CALLS=$faults LD_PRELOAD=$library timeout 60 "$programs/$program" "$@" > out 2> err || status=$?
}
expect() { # status message
  [[ $status == "$1" ]] || { cat err >&2; fail "$faults: status $status, expected $1"; }
  grep -qF -- "$2" out err || { cat out err >&2; fail "$faults: does not say '$2'"; }
}

train save_folder=calm save_num_checkpoints_to_keep=-1
cp -r calm begun && rm -r begun/ep0-ba{28,32,36,40}
ln -sfn ep0-ba24 begun/latest

# The newest checkpoint cannot be read just now: nothing is renamed, and the next start goes on.
for faults in "pread again/ep0-ba24/rank-0000 $eio 5 1" "open again/ep0-ba24/rank-00001 $stale 0 1" \
  "open again/ep0-ba24/manifest $timed_out 0 9" "lstat again $eio 4 3"; do
  rm -rf again && cp -r begun again
  with "$faults" pretrain small.yaml save_folder=again
  expect 6 again
  [[ $(cd again && echo ep*) == "$(cd begun && echo ep*)" ]] || fail "$faults: $(echo again/ep*) are left"
  train save_folder=again
  "$programs/checkpoint" diff calm again > log 2>&1 || { cat log >&2; fail "$faults: the next start"; }
done

# None of them is sound: a run does not begin anew over them in silence.
rm -rf again && cp -r begun again
truncate -s 100 again/ep0-ba*/manifest.json
faults='damaged manifests'
with '' pretrain small.yaml save_folder=again
expect 1 'there is no valid checkpoint; rescue what is there and remove it to begin anew'
[[ -d again/ep0-ba20 ]] || fail "checkpoints that may be rescued are gone"

# The nodes' own disk fails: what is there is not lost. The run was killed when it had a local checkpoint that was newer.
local=(local_save_folder=local local_save_interval=3ba save_interval=200ba max_duration=1000000ba)
"$programs/pretrain" small.yaml save_folder=shared "${local[@]}" > /dev/null 2>&1 & writer=$!
until [[ -e shared/latest && -e shared/local.json ]]; do sleep 0.05; done
sleep 0.5
kill -KILL $writer
wait $writer 2> /dev/null || true
newest=$(sed -E 's/.*"(ep0-ba[0-9]+)".*/\1/' shared/local.json)
[[ ${newest#ep0-ba} -gt $(readlink shared/latest | sed s/ep0-ba//) ]] || fail "the local checkpoint is not newer"
cp -r shared shared.then && cp -r local local.then
for faults in "lstat shared/local.json $eio 1 1" "open shared/local.json $stale 0 1" \
  "open local/$newest/manifest $eio 0 1" "pread local/$newest/rank-00001 $eio 0 1"; do
  rm -rf shared local && cp -r shared.then shared && cp -r local.then local
  with "$faults" pretrain small.yaml save_folder=shared "${local[@]}" max_duration=3ba
  expect 6 ''
  [[ -d local/$newest ]] || fail "$faults: the newest checkpoint is gone"
done

# Whoever writes is not taken for gone because the disk did not show its claim once.
"$programs/pretrain" small.yaml save_folder=claimed max_duration=1000000ba save_interval=50ba > /dev/null 2>&1 & writer=$!
until [[ -e claimed/latest ]]; do sleep 0.05; done
faults="open claimed/.lock-1 $stale 1 1"
with "$faults" pretrain small.yaml save_folder=claimed max_duration=60ba
expect 9 'another program is writing here'
kill -0 $writer || fail "the writer was driven out"
kill -KILL $writer
wait $writer 2> /dev/null || true

# File systems without links say so by many codes; a link that can no longer be made is not left where it names an
# older checkpoint; the next start goes on from the newest.
for code in $no_links 1 13 22 30 38 $eio 25; do
  rm -rf linkless
  faults="symlink linkless $code 0 99"
  with "$faults" pretrain small.yaml save_folder=linkless max_duration=8ba
  expect 0 'trained 8 batches'
  [[ -z $(find linkless -type l) ]] || fail "$faults: there is a link"
done
rm -rf linkless
faults="symlink linkless $read_only 1 99"
with "$faults" pretrain small.yaml save_folder=linkless max_duration=8ba
expect 0 'trained 8 batches'
[[ ! -L linkless/latest ]] || fail "$faults: latest is $(readlink linkless/latest)"
with "symlink linkless $read_only 0 99" pretrain small.yaml save_folder=linkless
expect 0 'resumed linkless/ep0-ba8'

# One that knows no request to flush a file or a folder.
for code in 22 38 $no_links; do
  rm -rf unflushed
  faults="fsync unflushed $code 0 9999"
  with "$faults" pretrain small.yaml save_folder=unflushed max_duration=8ba
  expect 0 'trained 8 batches'
done
rm -rf unflushed
faults="fsync unflushed $eio 0 9999"
with "$faults" pretrain small.yaml save_folder=unflushed max_duration=8ba
expect 6 unflushed

# One without locks: a set that one process writes is written all the same.
faults="flock unlocked $no_locks 0 9"
with "$faults" prepare --tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' --out_root unlocked "${text[0]}"
expect 0 'unlocked: '

# One without second links, or renames that replace nothing, where launch keeps the key of a run.
if [[ -x $programs/launch ]]; then
  for faults in "link key $no_links 0 9" "link key 1 0 9;renameat2 key $cannot_exchange 0 9" "link key 38 0 9"; do
    rm -rf launched meeting
    with "$faults" launch -n 2 --rendezvous meeting pretrain small.yaml save_folder=launched max_duration=2ba
    expect 0 'trained 2 batches'
  done
  status=0
  TMPDIR=$PWD/nowhere "$programs/launch" -n 2 pretrain small.yaml > out 2> err || status=$?
  faults='no TMPDIR'
  expect 1 "the environment says TMPDIR=$PWD/nowhere, which is no folder here"
  status=0
  SLURM_JOB_NUM_NODES=2 "$programs/launch" -n 2 pretrain small.yaml > out 2> err || status=$?
  faults='two nodes of a job'
  expect 1 'SLURM_JOB_NUM_NODES says that this job has 2 nodes: start launch once on each of them, as by srun'
  status=0
  "$programs/launch" --world_size 2 -n 2 pretrain small.yaml > out 2> err || status=$?
  faults="another launcher's option"
  expect 1 '--world_size is not an option: give -n RANKS'
fi

# One that cannot exchange names, where the program is killed in between.
"$programs/convert" begun model > /dev/null
faults="renameat2 model $cannot_exchange 0 9;unlinkat config.json $eio 0 9"
with "$faults" convert --replace calm model
expect 6 model
head -c 2000 "${text[0]}" > some.txt
"$programs/evaluate" model --data some.txt > /dev/null 2>&1 || fail "$faults: the model is gone"

# A record that a full disk loses costs no other.
faults="write metrics.jsonl $full 1 1"
with "$faults" pretrain small.yaml save_folder=logged metrics_file=metrics.jsonl
expect 6 '1 lines were lost'
[[ $(wc -l < metrics.jsonl) == 39 ]] || fail "of 40 lines $(wc -l < metrics.jsonl) are left"
# What the log of a rank lacks is said.
if [[ -x $programs/launch ]]; then
  faults="write rank-0.log $full 0 99"
  with "$faults" launch -n 2 "$programs/pretrain" small.yaml ranks= autoresume=false max_duration=1ba
  expect 0 'launch: the log of a rank cannot be written (No space left on device): it lacks what is shown'
fi
echo "a disk that fails for a moment costs nothing"
