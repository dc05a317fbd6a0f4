#!/usr/bin/env bash
# `launch`: ranks that are processes over gloo give the losses of threads; what fails is named, what is
# started again ends with the same bytes, nothing is left running; two hosts (network namespaces, where
# they can be made) train by one command each.
source "$(dirname "$0")/common.sh"
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

train save_folder=calm metrics_file=threads.jsonl
losses threads.jsonl > expected
sed -i '/^ranks:/d' small.yaml
launch() { timeout 100 "$programs/launch" "$@" > log 2>&1; }
saw() { grep -q -- "$1" log || { cat log >&2; fail "not said: $1"; }; }

launch -n 2 pretrain small.yaml autoresume=false save_folder= metrics_file=launched.jsonl ||
  { cat log >&2; fail "launch"; }
losses launched.jsonl | cmp - expected || fail "processes over gloo differ from threads"
[[ -z $(find launch-logs -name rank-1.log -size +0) && -s $(echo launch-logs/*/rank-0.log) ]] ||
  fail "logs are not as they should be"
echo "launch -n 2: 40 losses and gradient norms are those of threads in every digit"

# a rank that is killed is named, the other ends, and so it goes on to the same end
victim() { pgrep -f "pretrain small.yaml save_folder=$1" | tail -n 1; }
launch -n 2 --restarts 1 pretrain small.yaml save_folder=wild eval_interval=0ba &
until [[ -e wild/ep0-ba4 ]]; do sleep 0.01; done
kill -KILL "$(victim wild)"
wait $! || { cat log >&2; fail "the run was not started again"; }
saw 'error: rank 1 was killed by signal 9'
saw 'launch: starting again, 1 of 1 times'
name=$(basename "$(readlink calm/latest)")
for file in "calm/$name"/*.safetensors; do
  cmp "$file" "wild/$name/$(basename "$file")" || fail "$(basename "$file") differs"
done
echo "a killed rank: started again, and the same bytes at the end"

# without restarts its code is the launch's, its own words are shown, and nobody is left
code=0
launch -n 3 bash -c '[[ $RANK != 1 ]] || { echo rank one says this; exit 7; }; (exec -a left_over sleep 50) & wait' ||
  code=$?
[[ $code == 7 ]] || fail "the code is $code, not the failing rank's"
saw 'error: rank 1 ended with code 7'
saw 'rank one says this'
pgrep -f left_over && fail "a rank was left running"
launch -n 2 no-such-program && fail "a program that is not there ran"
saw 'error: no program no-such-program is beside launch or in PATH'
launch -n 2 convert calm out && fail "two processes did the same work"
saw 'launch started 2 processes, and each would do all of the work'

# signals reach the ranks; when launch itself is killed, so are they
launch -n 2 bash -c 'trap "echo got it; exit 3" TERM; sleep 50 & wait' &
sleep 0.5
pkill -TERM -P $! launch || fail "no launch to stop"
wait $! && fail "stopped, but the code is 0"
saw 'got it'
"$programs/launch" -n 2 bash -c 'exec -a left_over sleep 50' > log 2>&1 &
sleep 0.5
kill -KILL $!
sleep 0.2
pgrep -f left_over && fail "a rank outlived its launch"

# two nodes on one machine: they meet, and are told what they do not agree in
node() { timeout 100 "$programs/launch" -n 1 --nodes 2 --node "$@" > "log$1" 2>&1; }
node 0 --rendezvous meet --interface lo pretrain small.yaml autoresume=false save_folder= metrics_file=nodes.jsonl &
node 1 --rendezvous meet --interface lo pretrain small.yaml autoresume=false save_folder= metrics_file=nodes.jsonl ||
  { cat log0 log1 >&2; fail "node 1"; }
wait $! || { cat log0 log1 >&2; fail "node 0"; }
losses nodes.jsonl | cmp - expected || fail "two nodes differ from threads"
[[ -z $(ls meet) ]] || fail "left in the rendezvous: $(ls meet)"
node 0 --rendezvous meet --interface lo pretrain small.yaml &
node 1 --rendezvous meet --interface lo pretrain small.yaml seed=3 && fail "other arguments were taken"
wait $! && fail "other arguments were taken"
grep -q "error: node 1 .* runs the program with other arguments than node 0 .*: 'seed=3', not nothing" log0 log1 ||
  { cat log0 log1 >&2; fail "what differs is not said"; }
echo "two nodes: same digits; other arguments are refused"
