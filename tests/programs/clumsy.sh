#!/usr/bin/env bash
# What clumsy users do to the programs: each gets one clear message and a status that is not 0, and
# nothing is lost, whoever else writes at the same time.
# usage: clumsy.sh PROGRAMS WORK [MPIEXEC]
source "$(dirname "$0")/common.sh"
mpiexec=${3:-}

sed -i 's/^autoresume: true/autoresume: false/' small.yaml
train max_duration=8ba save_folder=run
"$programs/convert" run hf > /dev/null
head -c 2000 "${text[0]}" > some.txt

expected=1 # the status of what is refused
refused() { # message program arguments...
  local message=$1 program=$2
  shift 2
  local status=0
  timeout 20 "$programs/$program" "$@" > out 2> err || status=$?
  [[ $status == "$expected" ]] || { cat out err >&2; fail "$program $*: status $status, expected $expected"; }
  [[ $(grep -c '^error: ' err) == 1 ]] || { cat err >&2; fail "$program $*: not one error"; }
  grep -qF -- "$message" err || { cat err >&2; fail "$program $*: another message than '$message'"; }
}
says() { grep -qF -- "$1" err || { cat err >&2; fail "does not say '$1'"; }; }

# Two writers of one folder: one writes, the other is told who; the folder is whole.
for from in run hf; do
  for round in 1 2 3 4; do
    rm -rf to first second
    [[ $from == run && $round -gt 2 ]] && cp -r hf to
    "$programs/convert" --replace $from to > /dev/null 2> first & other=$!
    own=0 theirs=0
    "$programs/convert" --replace $from to > /dev/null 2> second || own=$?
    wait $other || theirs=$?
    [[ $own == 0 || $theirs == 0 ]] || { cat first second >&2; fail "both conversions failed"; }
    cat first second | grep '^error' | grep -v 'another program is writing here (process' && fail "two conversions collide"
    "$programs/evaluate" to --data some.txt > /dev/null 2>&1 || fail "two conversions left a broken folder"
    [[ -z $(find . -name '*.tmp-*' -o -name '*.lock') ]] || fail "two conversions left $(find . -name '*.tmp-*' -o -name '*.lock')"
  done
done
"$programs/pretrain" small.yaml save_folder=two save_interval=1ba max_duration=2000ba > /dev/null 2>&1 & other=$!
while [[ ! -e two/latest ]]; do sleep 0.05; done
expected=9 refused "two: another program is writing here (process $other on " \
  pretrain small.yaml save_folder=two save_overwrite=true max_duration=5ba
kill -KILL $other
wait $other 2> /dev/null || true
train save_folder=two autoresume=true max_duration=1ba
[[ $(echo two/.lock-*) == two/.lock-2 ]] || fail "the second run is not the second generation"

# What is asked for and would change nothing is refused or done.
refused "algorithms.gated_linear_units: not yet supported; leave it out" \
  pretrain small.yaml 'algorithms.gated_linear_units={}' max_duration=1ba
refused "variables.data_locl: nothing refers to it, so it would change nothing" \
  pretrain small.yaml variables.data_locl=elsewhere max_duration=1ba
"$programs/pretrain" small.yaml max_duration=1ba scheduler.t_warmup=1e9tok > out 2>&1 || fail "a long warm-up: $?"
grep -q "note: scheduler.t_warmup .*the learning rate does not come to its value" out || fail "a long warm-up is not said"
OMP_NUM_THREADS=1 "$programs/pretrain" small.yaml max_duration=1ba threads= device=cpu > out 2>&1 || fail "one thread: $?"
grep -q ' 1 threads (OMP_NUM_THREADS)' out || { cat out >&2; fail "OMP_NUM_THREADS=1 is ignored"; }
expected=1 OMP_NUM_THREADS=some refused "OMP_NUM_THREADS is 'some'; expected a number of threads" \
  pretrain small.yaml max_duration=1ba threads= device=cpu

# Streams that are closed, disks that are full.
for command in "pretrain small.yaml max_duration=1ba" "generate hf --prompt hi --max_new_tokens 2" \
  "evaluate hf --data some.txt" "train_tokenizer --vocab_size 300 --out words some.txt"; do
  rm -rf words
  # shellcheck disable=SC2086
  {
    "$programs"/$command > /dev/null 2>&- || fail "$command, with standard error closed: $?"
    rm -rf words
    "$programs"/$command > /dev/null 2> /dev/full || fail "$command, with standard error full: $?"
    for to in /dev/full closed; do
      rm -rf words
      status=0
      if [[ $to == closed ]]; then "$programs"/$command >&- 2> err; else "$programs"/$command > $to 2> err; fi || status=$?
      [[ $status == $([[ $to == closed ]] && echo 1 || echo 6) ]] || fail "$command, with output to $to: status $status"
      says 'error: standard output: what was printed is not complete'
    done
  }
done
status=0
(ulimit -f 64; "$programs/convert" run limited > /dev/null 2> err) || status=$?
[[ $status == 6 ]] || fail "convert beyond the limit of files: status $status"
says 'File too large'
[[ -z $(find . -name 'limited*') ]] || fail "convert left $(find . -name 'limited*')"
for command in "pretrain small.yaml max_duration=1ba" "generate hf --prompt hi" "launch -n 2 pretrain small.yaml"; do
  status=0
  # shellcheck disable=SC2086
  (ulimit -s 64; "$programs"/$command > /dev/null 2> err) || status=$?
  [[ $status == 5 ]] || { cat err >&2; fail "$command with small stacks: status $status"; }
  says 'raise the limit on them (ulimit -s)'
done
status=0
(ulimit -n 9; "$programs/launch" -n 2 pretrain small.yaml > /dev/null 2> err) || status=$?
[[ $status == 5 ]] || { cat err >&2; fail "launch with few open files: status $status"; }
says 'raise the limit on open files (ulimit -n)'
for kibibytes in $(seq 90000 9000 180000); do  # of some of these sizes libraries fault instead of saying that none is left
  status=0
  (ulimit -d "$kibibytes"; "$programs/pretrain" small.yaml max_duration=1ba > /dev/null 2> err) || status=$?
  [[ $status == 0 || $status == 5 ]] || { cat err >&2; fail "$kibibytes KiB of data: status $status"; }
  [[ $status == 0 ]] || says '(ulimit -'
done
rm err
(ulimit -d 4000000; exec "$programs/pretrain" small.yaml max_duration=100000ba > /dev/null 2> err) & faulty=$!
until [[ -s err ]]; do sleep 0.05; done
kill -SEGV $faulty
status=0
wait $faulty || status=$?
[[ $status == 5 ]] || { cat err >&2; fail "a fault where memory is limited: status $status"; }
says 'error: this process wrote where it has no memory'

# Files to which results cannot go.
cp -r hf precious
for name in model.safetensors config.json; do
  refused "files of a model, tokenizer or data set are not replaced" evaluate precious --data some.txt --json precious/$name
done
diff -r hf precious || fail "a file of a model was replaced"
refused 'is what is read' evaluate hf --data some.txt --json some.txt
refused 'cannot be written' generate hf --prompt hi --json nowhere/x.json
refused 'is a folder' generate hf --prompt hi --json hf
expected=6 refused 'No space left' generate hf --prompt hi --json /dev/full
[[ -c /dev/full ]] || fail "a device was replaced"
"$programs/evaluate" hf --data some.txt --json - 2> /dev/null | python3 -c 'import json, sys; json.load(sys.stdin)' ||
  fail "--json - prints more than JSON"
cp small.yaml kept.yaml
refused 'holds something else than metrics' pretrain small.yaml max_duration=1ba metrics_file=small.yaml
cmp small.yaml kept.yaml || fail "metrics were written into a configuration"
refused 'cannot be written' pretrain small.yaml max_duration=1ba metrics_file=hf
expected=6 refused 'lines were lost' pretrain small.yaml max_duration=1ba metrics_file=/dev/full
for name in latest summary.json run.jsonl best; do
  mkdir -p taken/$name
  refused "taken/$name: is a folder, but saving puts a " pretrain small.yaml save_folder=taken eval_interval=1ba \
    'eval_loader={name: text, dataset: {local: data}}'
  [[ ! -e taken/ep0-ba4 ]] || fail "a run that cannot save began"
  rm -r taken
done
refused 'holds a Hugging Face model' convert hf hf
refused 'exists already; choose another folder, or replace it (convert: --replace' convert run run
refused 'becomes a checkpoint, whose files are not divided by size; leave --max_shard_bytes out' \
  convert hf never --max_shard_bytes 1000
refused 'nowhere' convert hf never --tokenizer nowhere
refused 'is no model; give' convert small.yaml never
refused 'is no model; give' convert hf/model.safetensors never
refused 'has no adapters; leave --base out' convert run never --base hf
refused 'a zero byte follows' evaluate hf --data hf/model.safetensors
[[ ! -e never ]] || fail "something was converted"

# Options.
refused "--max_new_tokens: expected a whole number from 1 to" generate hf --prompt hi --max_new_tokens 0
for seed in 18446744073709551616 -1 x; do
  refused "expected a whole number from 0 to 18446744073709551615, found '$seed'" generate hf --prompt hi --seed=$seed
done
"$programs/generate" hf --prompt hi --max_new_tokens 1 --top_k 5 --top_p 0.5 --seed 3 > /dev/null 2> err || fail "generate with unused options"
grep -q 'note: --top_k, --top_p, --seed: without effect at --temperature 0' err || fail "unused options of generate are not named"
refused 'expected some characters' generate hf --prompt hi --stop ''
refused '--nope is not an option; --help lists the options' generate hf --prompt hi --nope
refused '--max_new_token is not an option; did you mean --max_new_tokens?' generate hf --prompt hi --max_new_token 3
refused '--concat-tokens is not an option; did you mean --concat_tokens?' \
  prepare --tokenizer tokenizer --concat-tokens 32 --out_root none some.txt

# Options of LLM Foundry's scripts: each is answered with ours, whatever else the parser would have said first.
refused '--split-names is not an option; did you mean --splits?' prepare --dataset allenai/c4 --split-names train --tokenizer tokenizer --out_root none
refused 'input files are required, or --dataset ORG/NAME with --splits' prepare --tokenizer tokenizer --out_root none
refused "'some.txt' is here, and a name of the hub is expected" prepare --dataset some.txt --splits train --tokenizer tokenizer --out_root none
refused '--path is not an option: give the files' prepare --path some.txt --tokenizer tokenizer --out_root none
refused '--input_folder is not an option: give its files: prepare ... FOLDER/*; --output_folder is not an option: give --out_root FOLDER' \
  prepare --input_folder . --output_folder none --tokenizer tokenizer --concat_tokens 32
refused '--composer_path is not an option: give the checkpoint first: convert FROM TO; --hf_output_path is not an option: give the folder second: convert FROM TO; --output_precision is not an option: give --dtype float32, bfloat16 or float16' \
  convert --composer_path run.pt --hf_output_path none --output_precision bf16
refused '--name_or_path is not an option: give the model' generate --name_or_path hf --max_new_tokens 4 --prompts 'The answer is' 'Here is'
refused '--model_dtype is not an option: give --precision fp32 or bf16' generate hf --prompt hi --model_dtype bf16
refused '-n is not an option: give the model' generate -n hf --prompt hi
refused "--prompts: there is no file 'The answer is'; give a prompt by --prompt TEXT, several prompts as the lines of a file" \
  generate hf --prompts 'The answer is' 'Here is'
refused '--prompts: give a file that is one prompt by --prompt - < some.txt' generate hf --prompts file::some.txt
refused 'settings of the YAML are changed by key=value: max_duration=VALUE' pretrain small.yaml --max_duration 3ba
refused "'tasks.yaml': a file of tasks for a model is given by --icl_tasks" evaluate hf tasks.yaml
refused 'belongs to a training configuration, which pretrain and finetune run' evaluate small.yaml
refused "--dtype: expected float32 or bfloat16 or float16, found 'int8'" convert run none --dtype int8
[[ ! -e none ]] || fail "an option that is not known wrote something"
for dtype in bf16 bfloat16 torch.bfloat16 amp_bf16; do
  "$programs/convert" --replace run dtype --dtype $dtype > /dev/null 2> err || { cat err >&2; fail "convert --dtype $dtype"; }
  grep -q '"torch_dtype": "bfloat16"' dtype/config.json || fail "convert --dtype $dtype is not bfloat16"
  "$programs/generate" hf --prompt hi --max_new_tokens 2 --precision $dtype > out 2> err ||
    { cat err >&2; fail "generate --precision $dtype"; }
done

# Settings that are there under another name, or not at all.
refused "model.alibi: unknown key; did you mean 'model.attn_config.alibi'?" pretrain small.yaml model.alibi=true
refused 'callbacks.my_own: unknown key; there are speed_monitor, early_stopper' pretrain small.yaml 'callbacks.my_own={}'
refused 'loggers.my_own: unknown key; there are tensorboard, csv' pretrain small.yaml 'loggers.my_own={}'
refused 'algorithms.my_own: unknown key; there are gradient_clipping' pretrain small.yaml 'algorithms.my_own={}'
refused "'runs/latest-rank{rank}.pt' is how Composer names its files; of a run of ours give the folder, runs" \
  pretrain small.yaml 'load_path=runs/latest-rank{rank}.pt'
refused 'run/latest-rank0.pt: there is no such file; a run of ours has folders like ep0-ba100' \
  pretrain small.yaml load_path=run/latest-rank0.pt max_duration=1ba
ln -s nowhere/runs dangling
refused 'dangling: is a link to nowhere/runs, which is not there' pretrain small.yaml save_folder=dangling max_duration=1ba

# Byte order marks are no part of a text or a prompt; UTF-16 is named.
mark=$'\xef\xbb\xbf'
printf 'the same\r\ntext\r\n' > plain.txt
printf '%sthe same\r\ntext\r\n' "$mark" > marked.txt
for name in plain marked; do
  "$programs/prepare" --tokenizer tokenizer --eos_text '<|endoftext|>' --concat_tokens 2 --out_root set-$name $name.txt > /dev/null 2>&1
  "$programs/generate" hf --prompts $name.txt --max_new_tokens 4 --json $name.json > /dev/null 2>&1
  "$programs/generate" hf --prompt - --max_new_tokens 4 < $name.txt > $name.out 2> /dev/null
done
cmp set-plain/shard.00000.mds set-marked/shard.00000.mds || fail "a byte order mark is tokenised"
cmp plain.out marked.out || fail "a byte order mark is part of a prompt"
[[ $(grep '"text"\|"prompt"' plain.json) == $(grep '"text"\|"prompt"' marked.json) ]] || fail "a byte order mark is part of a file of prompts"
printf '\xff\xfeh\0i\0\n\0' > wide.txt
refused 'wide.txt: is text in UTF-16 by its byte order mark, and UTF-8 is read; convert it: iconv -f UTF-16 -t UTF-8 IN > OUT' \
  prepare --tokenizer tokenizer --eos_text '<|endoftext|>' --out_root set-wide wide.txt
refused 'wide.txt: is text in UTF-16' evaluate hf --data wide.txt
refused 'wide.txt: is text in UTF-16' generate hf --prompts wide.txt
refused 'config is required' pretrain
for option in "--temperature nan" "--temperature -1" "--top_p 2" "--top_k -1"; do
  # shellcheck disable=SC2086
  refused '' generate hf --prompt hi $option
  [[ ! -s out ]] || fail "the prompt is echoed before $option is refused"
done
refused 'more than 64 MiB' generate hf --prompt - < /dev/zero
printf 'word %.0s' {1..5000} > long.txt
refused 'tokens, but the model reads at most 31' generate hf --prompt - < long.txt
[[ ! -s out ]] || fail "a prompt that is too long is echoed"
"$programs/generate" hf --prompt 'the' --max_new_tokens 100 > /dev/null 2> err
says 'because the model reads at most 32'
refused 'has none to predict' evaluate hf --data some.txt --seq_len 1
refused 'is not one of the model' evaluate hf --data data --eos_token_id -7
refused 'is not one of the model' evaluate hf --data data --eos_token_id 999999
refused 'or more; give a time that a run can reach' pretrain small.yaml max_duration=9223372036854775807ba
: > empty.txt
refused 'no text to learn' train_tokenizer --out none empty.txt
[[ ! -e none ]] || fail "a tokenizer of nothing"
refused '--max_bytes' train_tokenizer --out none --max_bytes 0 some.txt
rm -rf words
"$programs/train_tokenizer" --out words --vocab_size 300 some.txt > /dev/null
"$programs/train_tokenizer" --out few --vocab_size 30000 some.txt | grep -q '^note: not 30000 tokens' || fail "too few tokens without a word"
"$programs/train_tokenizer" --out words --vocab_size 300 some.txt | grep -q '^already there: words' ||
  fail "a tokenizer is not made once"
printf 'other text %.0s' {1..500} > other.txt
refused 'vocab_size: was 300, now 400' train_tokenizer --out words --vocab_size 400 some.txt
refused 'inputs: file 1 was "some.txt, ' train_tokenizer --out words --vocab_size 300 other.txt
refused 'max_bytes: was 67108864, now 100' train_tokenizer --out words --vocab_size 300 --max_bytes 100 some.txt
rm words/train_tokenizer.json
[[ $("$programs/train_tokenizer" --out words --vocab_size 300 some.txt 2>&1) == *'made of is not known'* ]] ||
  fail "a tokenizer without a record is taken without a word"
refused 'holds a tokenizer of 300 tokens, not 299' train_tokenizer --out words --vocab_size 299 some.txt
refused '--num_workers: expected a whole number from 1 to 4096' prepare --num_workers 100000000 \
  --tokenizer tokenizer --out_root many some.txt
"$programs/pretrain" <(cat small.yaml) max_duration=1ba > log 2>&1 || { cat log >&2; fail "a configuration from a pipe"; }

# Damaged models and tokenizers.
spoil() { # a copy of the model whose config.json, or weights, are changed
  rm -rf bad
  cp -r hf bad
  python3 - "$1" << 'PYTHON'
import json, struct, sys
config = json.load(open("bad/config.json"))
with open("bad/model.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = bytearray(file.read())
exec(sys.argv[1])
text = json.dumps(header).encode()
open("bad/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
json.dump(config, open("bad/config.json", "w"))
PYTHON
}
damaged() { # message: what every program says of the folder "bad"
  refused "$1" generate bad --prompt hi
  refused "$1" evaluate bad --data some.txt
  refused "$1" convert bad never
  refused "$1" pretrain small.yaml max_duration=1ba load_path=bad
  [[ -z $(find never -name manifest.json 2> /dev/null) ]] || fail "converted: $1"
}
spoil 'data[:4] = struct.pack("<f", float("nan"))'
damaged 'holds values that are NaN or infinite'
spoil 'header["more"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}; data += bytes(4)'
damaged '"more" is not known to this model'
spoil 'del config["n_heads"]'
damaged 'lacks n_heads'
spoil 'config["quantization_config"] = {"load_in_4bit": True}'
damaged 'quantised weights are not read'
spoil 'config["eos_token_id"] = "end"'
damaged 'eos_token_id is "end"; expected a token'"'"'s number, or a list of them'
spoil 'config["n_layers"] = 2'
refused 'is not known to this model' generate bad --prompt hi
cp -r run older
echo damage >> older/ep0-ba8/manifest.json
for command in "generate older --prompt hi" "evaluate older --data some.txt" "convert older older-hf"; do
  # shellcheck disable=SC2086
  "$programs"/$command > /dev/null 2> err || fail "$command"
  says 'took the newest valid checkpoint, ep0-ba4'
done
python3 - << 'PYTHON'
import json
tokens = json.load(open("tokenizer/tokenizer.json"))
tokens["added_tokens"] += [{"id": 600 + i, "content": f"a{i}", "single_word": False, "lstrip": False, "rstrip": False,
                            "normalized": False, "special": True} for i in range(200000)]
json.dump(tokens, open("bad/tokenizer.json", "w"))
PYTHON
refused 'added tokens must follow' generate hf --prompt hi --tokenizer bad/tokenizer.json

# What a terminal would obey is not printed to one; a pipe gets every byte.
"$programs/generate" hf --prompt $'\e[31mred' --max_new_tokens 2 > out 2> err || { cat err >&2; fail "a prompt with an escape"; }
grep -q $'\e\\[31mred' out || fail "a pipe gets another text"
if command -v script > /dev/null; then
  printf '\e[31mred\n' > escape.txt
  script -qec "timeout 60 '$programs/generate' hf --prompts escape.txt --max_new_tokens 2" /dev/null < /dev/null > out 2>&1
  grep -q 'red' out || { cat out >&2; fail "a prompt on a terminal"; }
  grep -q $'\e\\[31m' out && fail "a terminal gets a prompt's escape"
fi

# Plans that fit or not, and launchers that are not followed.
plan() { "$programs/pretrain" small.yaml dry_run=true "$@" > out 2> err; }
plan ranks=24 device_memory=80GB global_train_batch_size=96 || { cat err >&2; fail "a plan of 24 ranks"; }
grep -q '^fits: ' out || fail "it is not said that a plan fits"
grep -q 'is spent waiting' out && fail "24 ranks are said to wait that all have 4 sequences"
plan ranks=64 device_memory=80GB global_train_batch_size=72 || fail "a plan of 64 ranks"
grep -q '^note: 56 of 64 data ranks have 1 sequence where others have 2: 44 % of the ' out ||
  fail "it is not said that ranks wait"
plan ranks=24 || fail "a plan of other machines"
grep -q 'whether it fits is not known' out || fail "a plan of other machines is held against this one"
tight=35054kB  # of which operations take 32 MiB
refused 'does not fit: ' pretrain small.yaml dry_run=true ranks=2 device_memory=$tight
fitting=$(sed -n 's/.*; set //p' err)
# shellcheck disable=SC2086
plan ranks=2 device_memory=$tight $fitting || { cat err >&2; fail "'$fitting' is said to fit"; }
plan ranks=4 "fsdp_config={sharding_strategy: HYBRID_SHARD}" || fail "HYBRID_SHARD: $(cat err)"
grep -q 'shard 4' out || fail "HYBRID_SHARD is not over the ranks of a machine: $(cat out)"
refused 'loggers.mosaicml' pretrain small.yaml dry_run=true "loggers={mosaicml: {}}"
for variables in "WORLD_SIZE=2" "MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0" "PMI_SIZE=2 PMI_RANK=0" "PMIX_RANK=1"; do
  # shellcheck disable=SC2086
  export $variables
  refused "the environment says ${variables%% *}" pretrain small.yaml max_duration=1ba
  refused "the environment says ${variables%% *}" convert run elsewhere
  refused "the environment says ${variables%% *}" generate hf --prompt hi
  for one in $variables; do unset "${one%%=*}"; done
done
for variables in "RANK=0 WORLD_SIZE=2" "RANK=2 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1"; do
  # shellcheck disable=SC2086
  export $variables
  message="the environment of torchrun or the like says rank 2 of 2"
  [[ $variables == *LOCAL* ]] || message="the environment has RANK and WORLD_SIZE of several processes, but not"
  refused "$message" pretrain small.yaml max_duration=1ba
  refused "$message" evaluate hf --data some.txt
  refused "$message" generate hf --prompt hi
  refused "$message" convert run elsewhere
  refused "$message" checkpoint list run
  refused "$message" prepare --tokenizer tokenizer --out_root elsewhere some.txt
  refused "$message" train_tokenizer --out elsewhere some.txt
  refused "there is no flight-rank<N>.ring here" flight run
  for program in pretrain finetune evaluate generate convert checkpoint prepare train_tokenizer flight; do
    "$programs/$program" --help > /dev/null || fail "$program --help with $variables: status $?"
  done
  for one in $variables; do unset "${one%%=*}"; done
done
[[ ! -e elsewhere ]] || fail "one of several processes did all of the work"
if [[ -n $mpiexec ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  "$mpiexec" --oversubscribe -n 2 "$programs/convert" run twice > out 2>&1 && fail "two processes convert"
  grep -q 'mpirun started 2 processes' out || { cat out >&2; fail "mpirun convert: unclear"; }
  [[ ! -e twice ]] || fail "two processes converted"
fi
if [[ -n $mpiexec ]]; then
  for other in max_duration=3ba optimizer.lr=1e-4 seed=3; do
    timeout 60 "$mpiexec" --oversubscribe -n 1 "$programs/pretrain" small.yaml max_duration=2ba save_folder= : \
      -n 1 "$programs/pretrain" small.yaml max_duration=2ba save_folder= $other > out 2>&1 && fail "ranks of two configurations trained"
    grep -q "error: rank 1 reads other inputs than rank 0: the configuration small.yaml, ${other%%=*}: ${other#*=} on rank 1" out ||
      { cat out >&2; fail "ranks of two configurations: unclear"; }
  done
fi
(ulimit -n 48; "$programs/pretrain" small.yaml max_duration=2ba save_folder=few ranks=12) > out 2> err ||
  says 'Too many open files'
[[ -e few/latest || $(wc -l < err) -lt 5 ]] || fail "12 ranks with few open files: $(cat err)"
echo "clumsy users: all were told, nothing was lost"
