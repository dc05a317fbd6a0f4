#!/usr/bin/env bash
# What `launch` and its ranks survive, or refuse by the right sentence: strangers who connect, a save_folder
# that is gone or empty or another's, nodes in different folders, a reader that leaves, signals at any time.
source "$(dirname "$0")/../common.sh"
mkdir tmp
export TMPDIR=$PWD/tmp
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
sed -i '/^ranks:/d' small.yaml
saw() { grep -q -- "$1" log || { cat log >&2; fail "not said: $1"; }; }
never() { ! grep -q -- "$1" log || { cat log >&2; fail "said: $1"; }; }
ends_with() { # CODE COMMAND...
  local expected=$1 code=0
  shift
  timeout 200 "$@" > log 2>&1 || code=$?
  [[ $code == "$expected" ]] || { cat log >&2; fail "$* ended with $code, not $expected"; }
}
is_empty() { [[ -z $(ls -A "$1") ]] || { find "$1" >&2; fail "something is left in $1"; }; }

# ranks 0 and 1 listen while rank 2 waits for the strangers to have come
cat > waits.sh <<'SH'
[[ $RANK != 2 ]] || until [[ -e strangers_came ]]; do sleep 0.05; done
exec "$@"
SH
"$programs/launch" -n 3 --rendezvous meet bash waits.sh "$programs/pretrain" small.yaml save_folder= autoresume=false \
  max_duration=2ba > log 2>&1 & run=$!
for rank in 0 1; do
  until file=$(ls meet/*-0/rank-$rank 2> /dev/null); do sleep 0.05; kill -0 $run || { cat log >&2; fail "start"; }; done
  read -r high low < <(od -An -tu1 -j2 -N2 "$file") # of a sockaddr_in
  port=$((high * 256 + low))
  for _ in {1..40}; do : 3<> "/dev/tcp/127.0.0.1/$port"; done
  exec 4<> "/dev/tcp/127.0.0.1/$port" # silent, to the end
  { head -c 300000 /dev/zero > "/dev/tcp/127.0.0.1/$port"; } 2> /dev/null & sender=$!
  printf 'GET / HTTP/1.1\r\n\r\n' > "/dev/tcp/127.0.0.1/$port"
  printf '\1\0\0\0hello' > "/dev/tcp/127.0.0.1/$port"
done
touch strangers_came
wait $run || { cat log >&2; fail "strangers ended a start"; }
wait $sender || true
exec 4>&-
never '^error'
is_empty meet
echo "strangers who connect to ranks that start, silent, by the hundred or with garbage: the run begins"

# a reader that leaves
{ timeout 200 "$programs/pretrain" small.yaml save_folder=pipe log_to_console=true max_duration=100000ba \
  save_interval=100000ba eval_interval=0ba 2>&1 || echo $? > code; } | sed '/ba  loss/q' > first
[[ $(cat code) == 75 && -e pipe/latest ]] || fail "a closed pipe: $(cat code)"
{ timeout 200 "$programs/launch" -n 2 "$programs/pretrain" small.yaml save_folder=ranks_pipe log_to_console=true \
  max_duration=100000ba save_interval=100000ba eval_interval=0ba 2>&1 || echo $? > code; } | sed '/ba  loss/q' > first
[[ $(cat code) == 75 && -e ranks_pipe/latest ]] || fail "a closed pipe of launch: $(cat code)"
echo "whoever read the output has left: saved, and status 75"

# what an earlier start has saved is missed, and what is gone is not said to be another's
cat > removes.sh <<'SH'
[[ $RANK != 0 || $PARALLELLM_GENERATION == 0 || ! -e $1 ]] || mv "$1" "$1.gone"
shift
exec "$@"
SH
long=(max_duration=100000ba eval_interval=0ba)
rank_of() { pgrep -f "^$programs/pretrain small.yaml save_folder=$1" | tail -n 1; }
"$programs/launch" -n 2 --restarts 5 bash removes.sh gone "$programs/pretrain" small.yaml save_folder=gone "${long[@]}" \
  > log 2>&1 & run=$!
until [[ -e gone/ep0-ba4 ]]; do sleep 0.05; kill -0 $run || { cat log >&2; fail "start"; }; done
kill -KILL "$(rank_of gone)"
code=0
wait $run || code=$?
[[ $code == 6 ]] || { cat log >&2; fail "an empty save_folder: code $code"; }
saw '^error: rank 0: gone: an earlier start of this run has saved checkpoints here, and now there is none'
never 'another has taken over'
[[ -z $(ls -d gone/ep* 2> /dev/null) ]] || fail "batch 0 was begun again"
is_empty tmp
"$programs/launch" -n 2 "$programs/pretrain" small.yaml save_folder=taken "${long[@]}" > log 2>&1 & run=$!
until [[ -e taken/ep0-ba4 ]]; do sleep 0.05; kill -0 $run || { cat log >&2; fail "start"; }; done
mv taken away
code=0
wait $run || code=$?
[[ $code == 6 ]] || { cat log >&2; fail "a removed save_folder: code $code"; }
saw 'taken: what this run has written here is gone: the folder was removed or emptied'
never 'another has taken over'
echo "a save_folder that is gone, while a run goes on or between two starts: said, and batch 0 is not begun again"

# nodes in other folders
mkdir a b
for node in a b; do ln -s ../data ../tokenizer ../small.yaml $node; done
for node in 0 1; do
  (
    [[ $node == 0 ]] && cd a || cd b
    code=0
    timeout 200 "$programs/launch" -n 1 --nodes 2 --node $node --interface lo --rendezvous ../meet2 pretrain small.yaml \
      save_folder=ckpt max_duration=4ba > log 2>&1 || code=$?
    [[ $code == 1 ]] || { cat log >&2; fail "nodes in other folders: code $code"; }
  ) &
done
wait
cat a/log b/log > log
saw 'save_folder is not one folder for all nodes: rank 1 on .* looks into .*/b/ckpt and does not see what rank 0 has written into .*/a/ckpt'
[[ -z $(ls -d ?/ckpt/ep* 2> /dev/null) ]] || fail "a batch was trained"
echo "nodes in different working directories are found before the first batch"

# a folder in use
"$programs/pretrain" small.yaml ranks=1 save_folder=busy "${long[@]}" > holder.log 2>&1 & holder=$!
until [[ -e busy/ep0-ba4 ]]; do sleep 0.05; kill -0 $holder || { cat holder.log >&2; fail "start"; }; done
begin=${EPOCHREALTIME/./}
ends_with 9 "$programs/launch" -n 2 pretrain small.yaml save_folder=busy "${long[@]}"
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
saw '^error: .*busy: another program is writing here (process '"$holder"' on'
"$programs/launch" -n 2 --restarts 1 pretrain small.yaml save_folder=busy "${long[@]}" > log 2>&1 & run=$!
until (($(grep -c 'launch: another program is waited for, 600 s at most' log) >= 2)); do
  sleep 0.05
  kill -0 $run || { cat log >&2; fail "a folder in use is not waited for"; }
done
kill -TERM $holder
until grep -q '^resumed busy' log; do sleep 0.05; kill -0 $run || { cat log >&2; fail "going on"; }; done
kill -TERM $run
code=0
wait $run || code=$?
[[ $code == 75 ]] || { cat log >&2; fail "waited for the folder: code $code"; }
wait $holder || true
echo "a folder in use: refused after $took ms, waited for with --restarts"

# signals at any time leave no key
for try in {1..12}; do
  signal=$([[ $((try % 3)) == 0 ]] && echo HUP || { [[ $((try % 3)) == 1 ]] && echo TERM || echo USR1; })
  "$programs/launch" -n 1 sleep 50 > log 2>&1 & run=$!
  until [[ -n $(ls tmp) ]]; do kill -0 $run || fail "start"; done
  ((try < 7)) || sleep 0.0$try
  kill -$signal $run
  code=0
  wait $run || code=$?
  ((code > 128)) || { cat log >&2; fail "$signal: code $code"; }
  is_empty tmp
done
"$programs/launch" -n 1 --rendezvous meet3 sleep 50 > log 2>&1 & run=$!
until [[ -e meet3/key ]]; do kill -0 $run || fail "start"; done
kill -TERM $run
wait $run || true
[[ ! -e meet3/key ]] || fail "the key is left"
ends_with 3 "$programs/launch" -n 1 --rendezvous meet3 bash -c 'exit 3'
[[ ! -e meet3/key ]] || fail "the key is left"
echo "signals at any time: nothing is left of a launch, and no key"
