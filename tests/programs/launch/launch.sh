#!/usr/bin/env bash
# `launch`: ranks that are processes over gloo give the losses of threads; what fails is named, what is
# started again ends with the same bytes, nothing is left running; two hosts (network namespaces, where
# they can be made) train by one command each.
source "$(dirname "$0")/../common.sh"
export TMPDIR=$PWD  # what a killed launch leaves
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

sed -i 's/^max_duration: 40ba/max_duration: 20ba/' small.yaml
train save_folder=calm metrics_file=threads.jsonl
losses threads.jsonl > expected
sed -i '/^ranks:/d' small.yaml
log=log
launch() { timeout 100 "$programs/launch" "$@" > "$log" 2>&1; }
saw() { grep -q -- "$1" "$log" || { cat "$log" >&2; fail "not said: $1"; }; }

launch -n 2 pretrain small.yaml autoresume=false save_folder= metrics_file=launched.jsonl ||
  { cat log >&2; fail "launch"; }
losses launched.jsonl | cmp - expected || fail "processes over gloo differ from threads"
[[ -z $(find launch-logs -name rank-1.log -size +0) && -s $(echo launch-logs/*/rank-0.log) ]] ||
  fail "logs are not as they should be"
echo "launch -n 2: 20 losses and gradient norms are those of threads in every digit"

# a rank that is killed is named, the other ends, and so it goes on to the same end
victim() { pgrep -f "pretrain small.yaml save_folder=$1" | tail -n 1; }
name=$(basename "$(readlink calm/latest)")
(
  trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
  log=wild.log
  launch -n 2 --restarts 1 pretrain small.yaml save_folder=wild eval_interval=0ba &
  until [[ -e wild/ep0-ba4 ]]; do sleep 0.01; done
  kill -KILL "$(victim wild)"
  wait $! || { cat "$log" >&2; fail "the run was not started again"; }
  saw 'error: rank 1 was killed by signal 9'
  saw 'launch: starting again, 1 of 1 times'
  for file in "calm/$name"/*.safetensors; do
    cmp "$file" "wild/$name/$(basename "$file")" || fail "$(basename "$file") differs"
  done
) & wild=$!

# a rank that is stalled is waited for 10 s, in which the rest of this goes on
"$programs/launch" -n 2 --restarts 1 pretrain small.yaml save_folder=still eval_interval=0ba \
  > still.log 2>&1 & still=$!
(
  until [[ -e still/ep0-ba4 ]]; do sleep 0.01; done
  kill -STOP "$(victim still)"
) &

# three nodes and a spare: one that is killed is replaced by the spare; when the first is killed too, another
# leads, and two go on; the save folder is taken over, and the end is that of a run on so many ranks
(
  trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
  crew() { # number
    exec timeout 200 "$programs/launch" -n 1 --nodes 3 --spares 1 --least 2 --node "$1" --rendezvous crew --interface lo \
      --restarts 9 --gone 2 pretrain small.yaml save_folder=crew-out max_duration=100ba save_interval=10ba \
      dist_timeout=20 > "crew$1" 2>&1
  }
  for i in 0 1 2 3; do
    crew $i & crew[i]=$!
  done
  kill_node() { kill -KILL "$(pgrep -P "${crew[$1]}")"; } # number: its launch, and with it its ranks
  until [[ -e crew-out/latest ]]; do sleep 0.02; done
  kill_node 1
  until grep -qs 'not needed now' crew3 && compgen -G 'crew-out/.lock-2' > /dev/null; do sleep 0.02; done
  kill_node 0
  code=0
  for i in 2 3; do wait "${crew[i]}" || code=$?; done
  [[ $code == 0 ]] || { cat crew? >&2; fail "nodes that were left ended with $code"; }
  grep -q 'launch: it goes on with 2 of 3 nodes, 2 ranks' crew2 || { cat crew? >&2; fail "two nodes did not go on"; }
  [[ -n $(compgen -G 'crew-out/ep*-ba100') ]] || fail "the run of the nodes that were left has no end"
) & nodes=$!

# without restarts its code is the launch's, its own words are shown, and nobody is left
code=0
launch -n 3 bash -c '[[ $RANK != 1 ]] || { echo rank one says this; exit 7; }; (exec -a left_over sleep 50) & wait' ||
  code=$?
[[ $code == 7 ]] || fail "the code is $code, not the failing rank's"
saw 'error: rank 1 ended with code 7'
saw 'rank one says this'
pgrep -f left_over && fail "a rank was left running"
launch -n 2 no-such-program && fail "a program that is not there ran"
saw 'error: no program no-such-program is next to launch or in PATH'
launch -n 2 convert calm out && fail "two processes did the same work"
saw 'launch started 2 processes, and each would do all of the work'

# a run that would end the same way is not started again
for code in 1 7; do
  launch -n 2 --restarts 9 --gone 1 bash -c "echo start >> starts; exit $code" && fail "code $code is lost"
  saw "launch: not started again: code $code would be the end of that, too"
  mv starts "starts-$code"
done
(($(wc -l < starts-7) <= 2 && $(wc -l < starts-1) >= 2 && $(wc -l < starts-1) <= 4)) ||
  fail "started too often: $(wc -l starts-*)"
launch -n 2 --restarts 2 --gone 1 bash -c 'echo start >> starts; exit 4' && fail "code 4 is lost"
(($(wc -l < starts) >= 3)) || fail "a late rank's run was not started again"

# signals reach the ranks; when launch itself is killed, so are they
code=0
# shellcheck disable=SC2016
"$programs/launch" -n 2 bash -c 'trap "echo got it; exit 3" TERM; touch trapped-$RANK; sleep 50 & wait' > log 2>&1 &
until [[ -e trapped-0 && -e trapped-1 ]]; do sleep 0.02; done
kill -TERM $!
wait $! || code=$?
[[ $code == 3 ]] || fail "the code after SIGTERM is $code, not the ranks'"
saw 'got it'
# also where a rank is a script that dies of the signal, and what it has started would save first
code=0
# shellcheck disable=SC2016
"$programs/launch" -n 2 bash -c 'bash -c "trap \"sleep 0.3; touch saved-$RANK; exit 75\" TERM; touch begun-$RANK; sleep 50 & wait"; exit' \
  > log 2>&1 & asked=$!
until [[ -e begun-0 && -e begun-1 ]]; do sleep 0.05; done
kill -TERM $asked
wait $asked || code=$?
[[ $code == 75 && -e saved-0 && -e saved-1 ]] || { cat log >&2; fail "a script's program did not save: code $code"; }
"$programs/launch" -n 2 bash -c 'exec -a left_over sleep 50' > log 2>&1 &
until (($(pgrep -c -f '^left_over') == 2)); do sleep 0.02; done
kill -KILL $!
sleep 0.2
pgrep -f left_over && fail "a rank outlived its launch"

# two nodes: hosts with a network between them where such can be made, else this machine twice
in_host=("" "") interface=(--interface lo)
first=launch$$a second=launch$$b
remove_hosts() { ip netns del $first; ip netns del $second; } 2> /dev/null
trap 'kill $(jobs -p) 2> /dev/null || true; remove_hosts || true' EXIT
if { ip netns add $first && ip netns add $second &&
  ip link add eth0 netns $first type veth peer name eth0 netns $second &&
  ip -n $first addr add 10.77.1.1/24 dev eth0 && ip -n $second addr add 10.77.1.2/24 dev eth0 &&
  ip -n $first link set lo up && ip -n $second link set lo up &&
  ip -n $first link set eth0 up && ip -n $second link set eth0 up; } 2> /dev/null; then
  in_host=("ip netns exec $first" "ip netns exec $second") interface=()
fi
node() { # number, and what is run
  # shellcheck disable=SC2086
  timeout 100 ${in_host[$1]} "$programs/launch" -n 1 --nodes 2 --node "$1" --rendezvous meet \
    "${interface[@]}" "${@:2}" > "log$1" 2>&1
}
both() { # what is run on both; the codes are in code0 and code1
  node 0 "$@" &
  code0=0 code1=0
  node 1 "$@" || code1=$?
  wait $! || code0=$?
}
both pretrain small.yaml autoresume=false save_folder= metrics_file=nodes.jsonl
[[ $code0$code1 == 00 ]] || { cat log0 log1 >&2; fail "two nodes: codes $code0 and $code1"; }
losses nodes.jsonl | cmp - expected || fail "two nodes differ from threads"
[[ -z $(ls meet) ]] || fail "left in the rendezvous: $(ls meet)"
# what fails in the folder for a while (a link that leads to itself cannot be followed) ends nothing
{
  until [[ -e outage/latest ]]; do sleep 0.02; done
  mv meet meet.aside && ln -s meet meet
  sleep 2.5
  rm meet && mv meet.aside meet
} & outage=$!
both pretrain small.yaml save_folder=outage max_duration=60ba
wait $outage
[[ $code0$code1 == 00 ]] || { cat log0 log1 >&2; fail "a folder that failed for a while: codes $code0 and $code1"; }
[[ -z $(ls meet) ]] || fail "left in the rendezvous: $(ls meet)"
echo "a rendezvous folder that failed for 2.5 s: the run goes on"
# where one node is asked to stop, and none may be missing, the other ends with it, though it would start again
{
  until [[ -e asked/latest ]]; do sleep 0.01; done
  kill -TERM "$(pgrep -f "^$programs/launch .*--node 0 .*save_folder=asked")"
} & asked=$!
both --restarts 3 pretrain small.yaml save_folder=asked max_duration=100000ba
wait $asked
[[ $code0$code1 == 7575 ]] || { cat log0 log1 >&2; fail "one node was asked to stop: codes $code0 and $code1"; }
rm -r meet
echo "one of two nodes is asked to stop: both have saved, and end with 75"
node 0 pretrain small.yaml &
node 1 pretrain small.yaml seed=3 && fail "other arguments were taken"
wait $! && fail "other arguments were taken"
for log in log0 log1; do
  grep -q "error: node 1 .* runs the program with other arguments than node 0 .*: 'seed=3', not nothing" $log ||
    { cat $log >&2; fail "what differs is not said"; }
done
echo "two nodes ${in_host[0]:+in namespaces of their own}: same digits; other arguments are refused"

# torchrun's and srun's ranks find each other by themselves
cluster() { # name, and the variables of a rank
  local rank
  for rank in 0 1; do
    # shellcheck disable=SC2086
    env ${2//@/$rank} PARALLELLM_INTERFACE=lo timeout 100 "$programs/pretrain" small.yaml "save_folder=$1" \
      "metrics_file=$1.jsonl" > "$1$rank" 2>&1 & ids[rank]=$!
  done
  for rank in 0 1; do wait "${ids[rank]}" || { cat "$1"? >&2; fail "ranks of $1"; }; done
  losses "$1.jsonl" | cmp - expected || fail "ranks of $1 differ from threads"
  [[ ! -e $1/.meeting ]] || fail "the meeting of $1 is left"
}
cluster torchrun "RANK=@ WORLD_SIZE=2 LOCAL_RANK=@ LOCAL_WORLD_SIZE=2"
cluster srun "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=@ SLURM_LOCALID=0 SLURM_NODEID=@ SLURM_STEP_TASKS_PER_NODE=1(x2)"
echo "ranks that torchrun or srun starts: same digits"

# what a machine reads otherwise than rank 0's is named before anything is computed; equal copies are fine
"$programs/convert" calm hf > /dev/null
"$programs/finetune" small.yaml model=null "model={name: hf_causal_lm, pretrained_model_name_or_path: hf, peft_config: {r: 2}}" \
  autoresume=false save_folder=lora max_duration=1ba > log 2>&1 || { cat log >&2; fail "LoRA"; }
"$programs/convert" lora adapter > /dev/null
"$programs/prepare" --tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' --out_root plain "${text[@]}" > /dev/null 2>&1
cp "${text[0]}" some.txt
cat > edit.py <<'PYTHON'
"""edit.py none INDEX: an index without hashes.  edit.py token SHARD: another last token of the sample at a third.
edit.py FILE OFFSET: another lowest bit of the byte there, counted from the end if it is negative."""
import json, re, struct, sys
if sys.argv[1] == "none":
    text = re.sub(r'"hashes": ?\{[^}]*\}', '"hashes": {}', open(sys.argv[2]).read())
    json.loads(text)
    open(sys.argv[2], "w").write(text)
else:
    name, offset = sys.argv[1], int(sys.argv[2]) if sys.argv[1] != "token" else 0
    if name == "token":
        name = sys.argv[2]
        shard = open(name, "rb").read()
        samples = struct.unpack_from("<I", shard)[0]
        offset = struct.unpack_from("<I", shard, 4 + 4 * (samples // 3))[0] - 4  # before the next sample
    with open(name, "r+b") as file:
        file.seek(offset, 2 * (offset < 0))
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
PYTHON
python3 edit.py none plain/index.json
sed -e 's/^model:.*/model: {name: hf_causal_lm, pretrained_model_name_or_path: hf}/' -e '/^        resid_pdrop/d' -e 's/local: data/local: plain/' \
  -e 's/^max_duration:.*/max_duration: 1ba/' -e 's/autoresume: true/autoresume: false/' small.yaml > tune.yaml
pair() { # program and arguments, on rank 0 here, on rank 1 elsewhere
  local rank
  rm -rf pair-meeting
  for rank in 0 1; do
    (
      ((rank == 0)) || cd elsewhere
      export RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 PARALLELLM_INTERFACE=lo PARALLELLM_MEETING=$work/pair-meeting
      timeout 100 "$programs/$1" "${@:2}" > "$work/pair$rank" 2>&1
    ) & ids[rank]=$!
  done
  status=0
  for rank in 0 1; do wait "${ids[rank]}" || status=$?; done
}
others=0
differs() { # what is named, the change elsewhere, program and arguments
  rm -rf elsewhere
  mkdir elsewhere
  cp -r small.yaml tune.yaml tokenizer hf plain calm adapter some.txt elsewhere
  (cd elsewhere && eval "$2")
  pair "${@:3}"
  if [[ -z $1 ]]; then
    ((status == 0)) || { cat pair0 pair1 >&2; fail "equal inputs are refused: ${*:3}"; }
  else
    ((status != 0)) || { cat pair0 >&2; fail "ranks that differ computed: $1"; }
    grep -q "error: rank 1 reads other inputs than rank 0: $1: .* on rank 1, .* on rank 0; give all" pair0 ||
      { cat pair0 pair1 >&2; fail "not named: $1"; }
    others=$((others + 1))
  fi
}
run=(pretrain tune.yaml save_folder=)
weights=$(stat -c %s hf/model.safetensors)
differs "" "mv plain set; sed -i 's/local: plain/local: set/' tune.yaml" "${run[@]}"
differs "the data of train_loader plain, its tokens" "python3 ../edit.py token plain/shard.00000.mds" "${run[@]}"
differs "the weights hf, transformer.*" "python3 ../edit.py hf/model.safetensors $((weights / 2))" "${run[@]}"
differs "the model hf/config.json, .*eps.*" "sed -i 's/\"layer_norm_epsilon\": 1e-05/\"layer_norm_epsilon\": 1e-04/; s/\"norm_eps\": 1e-05/\"norm_eps\": 1e-04/' hf/config.json" "${run[@]}"
differs "the tokenizer tokenizer, tokenizer.json" "echo >> tokenizer/tokenizer.json" "${run[@]}"
differs "the configuration tune.yaml, seed" "echo 'seed: 3' >> tune.yaml" "${run[@]}"
differs "the adapter adapter/adapter_model.safetensors, .*lora_.*" "python3 ../edit.py adapter/adapter_model.safetensors -50" "${run[@]}" \
  model.pretrained_lora_id_or_path=adapter
"$programs/pretrain" small.yaml seed=5 max_duration=4ba autoresume=false save_folder=third > log 2>&1 || { cat log >&2; fail "another seed"; }
differs "the checkpoint calm/$name, .*" "rm -r calm/$name; cp -r ../third/ep0-ba4 calm/$name" \
  pretrain small.yaml train_loader.dataset.local=plain save_folder= autoresume=false load_path=calm/"$name" load_weights_only=true
differs "" "rm -r calm" evaluate hf --data some.txt
differs "the weights hf, transformer.*" "python3 ../edit.py hf/model.safetensors $((weights / 2))" evaluate hf --data some.txt
differs "the data some.txt, its content" "echo more >> some.txt" evaluate hf --data some.txt
differs "the tokenizer hf, tokenizer.json" "echo >> hf/tokenizer.json" evaluate hf --data some.txt
differs "the weights hf, transformer.*" "python3 ../edit.py hf/model.safetensors $((weights / 2))" generate hf --prompt a --max_new_tokens 2
differs "the options and generation_config.json, repetition_penalty" \
  "sed -i '1a \"repetition_penalty\": 1.5,' hf/generation_config.json" generate hf --prompt a --max_new_tokens 2
echo "$others inputs that another machine has otherwise: each is refused and named"

# a cut link: who waits says so at the deadline, and all go on when it is mended
if [[ -n ${in_host[0]} ]]; then
  {
    until [[ -e cut/ep0-ba4 ]]; do sleep 0.01; done
    ip -n $first link set eth0 down
    until grep -qs 'waited 3 s for rank' log0 log1; do sleep 0.1; done
    ip -n $first link set eth0 up
  } &
  rm -f log0 log1
  both --restarts 3 pretrain small.yaml save_folder=cut dist_timeout=3
  [[ $code0$code1 == 00 ]] || { cat log0 log1 >&2; fail "after a cut: codes $code0 and $code1"; }
  grep -q 'launch: starting again' log0 || fail "the cut was not noticed"
  for file in "calm/$name"/*.safetensors; do
    cmp "$file" "cut/$name/$(basename "$file")" || fail "$(basename "$file") differs after the cut"
  done
  echo "a link that was cut: an error after 3 s that names who is missing, and the same bytes at the end"
fi

wait $wild || fail "a killed rank"
echo "a killed rank: started again, and the same bytes at the end"
wait $nodes || fail "nodes that were killed"
echo "of three nodes and a spare two were killed, the first included, and the run came to its end"

wait $still || { cat still.log >&2; fail "a run of which a rank was stalled was not started again"; }
grep -qE 'rank 1 \(process [0-9]+ on .*\) is stalled: it has not run for 10 s; its last call: ' still.log ||
  { cat still.log >&2; fail "a rank that is stalled is not named"; }
for file in "calm/$name"/*.safetensors; do
  cmp "$file" "still/$name/$(basename "$file")" || fail "$(basename "$file") differs after a rank was stalled"
done
echo "a rank that was stalled: named after 10 s, started again, and the same bytes at the end"
