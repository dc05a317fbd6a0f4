#!/usr/bin/env bash
# What a wrong tokenizer, token or launcher would train or write without a word: it is refused or said.
# usage: tokens.sh PROGRAMS WORK [MPIEXEC]
source "$(dirname "$0")/common.sh"

sed -i 's/^autoresume: true/autoresume: false/' small.yaml
train max_duration=2ba save_folder=run save_interval=2ba
"$programs/convert" run hf > /dev/null
head -c 2000 "${text[0]}" > some.txt
printf '{"text": "one"}\n{"text": "two"}\n' > two.jsonl

run() { # status program arguments...: output in "out" and "err"
  local expected=$1 program=$2 status=0
  shift 2
  timeout 60 "$programs/$program" "$@" > out 2> err || status=$?
  [[ $status == "$expected" ]] || { cat out err >&2; fail "$program $*: status $status, expected $expected"; }
}
says() { grep -qF -- "$1" out err || { cat out err >&2; fail "does not say '$1'"; }; }
silent() { ! grep -qF -- "$1" out err || { cat out err >&2; fail "says '$1'"; }; }
edit() { python3 -c 'import json, sys; f = sys.argv[1]; d = json.load(open(f)); exec(sys.argv[2]); json.dump(d, open(f, "w"))' "$1" "$2"; }

# A tokenizer without an end of texts.
cp -r tokenizer endless
edit endless/tokenizer_config.json 'del d["eos_token"]'
cp -r hf hf-endless
cp endless/tokenizer_config.json hf-endless/
edit hf-endless/config.json 'd.pop("eos_token_id")'
edit hf-endless/generation_config.json 'd.pop("eos_token_id")'
printf '{"prompt": "one", "response": " two"}\n%.0s' {1..8} > rows.jsonl
run 1 prepare --finetuning --tokenizer endless --out_root never rows.jsonl
says 'endless/tokenizer.json: has no end-of-text token (tokenizer_config.json names no eos_token): '
cat > ft.yaml <<'YAML'
max_seq_len: 32
model: {name: hf_causal_lm, pretrained: true, pretrained_model_name_or_path: hf}
tokenizer: {name: hf}
train_loader: {name: finetuning, dataset: {hf_name: rows.jsonl, split: train, shuffle: false, max_seq_len: 32}, drop_last: true}
scheduler: {name: linear_decay_with_warmup, t_warmup: 0ba, alpha_f: 0}
optimizer: {name: decoupled_adamw, lr: 1.0e-3}
max_duration: 1ba
eval_interval: 0
global_train_batch_size: 4
device_train_microbatch_size: 2
precision: fp32
progress_bar: false
YAML
run 1 finetune ft.yaml tokenizer.name=endless
says 'endless/tokenizer.json: has no end-of-text token'
run 0 finetune ft.yaml
run 0 generate hf-endless --prompt the --max_new_tokens 4
says 'note: nothing ends a text before it is as long as allowed: hf-endless names no eos_token_id'
run 0 generate hf --prompt the --max_new_tokens 4
silent note:
run 0 pretrain small.yaml max_duration=1ba tokenizer.name=endless
says 'note: tokenizer.name endless has no end-of-text token'
run 0 evaluate hf-endless --data two.jsonl
says 'nothing separates the documents'
echo '{"eos_token": "<|endoftext|>"}' > endless/special_tokens_map.json
run 0 finetune ft.yaml tokenizer.name=endless
silent 'end-of-text'

# Texts between documents that are not a token.
for text in '<|end|>' '</s>'; do
  run 1 prepare --tokenizer tokenizer --concat_tokens 2 --eos_text "$text" --out_root never two.jsonl
  says "--eos_text '$text' is no token of tokenizer/tokenizer.json, but "
  says "such as its own end-of-text token '<|endoftext|>'"
  run 1 prepare --tokenizer tokenizer --concat_tokens 2 --bos_text "$text" --out_root never two.jsonl
  says "--bos_text '$text' is no token"
done
run 0 prepare --tokenizer tokenizer --concat_tokens 2 --eos_text ' ## ' --out_root marks two.jsonl
says "note: --eos_text ' ## ' is "
run 0 prepare --tokenizer tokenizer --concat_tokens 2 --eos_text '<|endoftext|>' --out_root ends two.jsonl
silent note:
[[ ! -e never ]] || fail "a refused set was begun"

# A tokenizer that is not the one of the data.
cp -r tokenizer other
edit other/tokenizer.json 'd["model"]["vocab"] = {k: v for k, v in sorted(d["model"]["vocab"].items())}'
run 0 pretrain small.yaml max_duration=1ba
silent 'another tokenizer'
run 0 pretrain small.yaml max_duration=1ba tokenizer.name=other
says 'was made with another tokenizer than other/tokenizer.json'
run 0 prepare --tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' --out_root few some.txt
run 0 evaluate hf --data few
silent 'another tokenizer'
run 0 evaluate hf --data few --tokenizer other
says 'note: few was made with another tokenizer than other/tokenizer.json'

# A tokenizer with more ids than the model.
cp -r tokenizer large
edit large/tokenizer.json 'd["added_tokens"].append(dict(d["added_tokens"][0], id=512, content="<s>"))'
run 1 convert run never --tokenizer large
says 'large/tokenizer.json: has ids up to 512, but those of the model end at 511'
run 1 convert hf never --tokenizer large
says 'large/tokenizer.json: has ids up to 512'
run 1 pretrain small.yaml max_duration=1ba tokenizer.name=large \
  'callbacks={hf_checkpointer: {save_folder: never, save_interval: 1ba}}'
says 'large/tokenizer.json: has ids up to 512'
[[ ! -e never ]] || fail "a refused export was written"
run 1 evaluate hf --data some.txt --tokenizer large
says "large: has 513 tokens, the model only 512; name the model's own"

# An export that is replaced keeps its tokenizer where none is named and the run's own is gone.
mv tokenizer moved
run 0 convert run again --tokenizer moved
run 0 convert run again --replace
says 'note: the tokenizer of the folder that was replaced goes with it'
diff moved/tokenizer.json again/tokenizer.json || fail "the tokenizer of an export is lost"
mv moved tokenizer

# Ends of texts that the model's files name.
"$programs/generate" hf --prompt the --max_new_tokens 8 --json eight.json > /dev/null 2>&1
first=$(python3 -c 'import json; print(json.load(open("eight.json"))["generations"][0]["output_tokens"])')
[[ $first == 8 ]] || fail "the small model writes $first tokens, which the test needs to be 8"
for file in config.json generation_config.json; do
  cp -r hf hf-list
  [[ $file == config.json ]] && rm hf-list/generation_config.json
  edit hf-list/$file 'd["eos_token_id"] = [0, *range(1, 512)]'
  run 0 generate hf-list --prompt the --max_new_tokens 8
  says '(0 tokens after a prompt of'
  edit hf-list/$file 'd["eos_token_id"] = 50256'
  run 0 generate hf-list --prompt the --max_new_tokens 8
  says "note: hf-list: eos_token_id 50256 is not one of the model's 512 tokens, so that it ends no text"
  says '(8 tokens after a prompt of'
  rm -r hf-list
done

# Processes that a launcher started and MPI leaves alone.
if [[ -n ${3:-} ]]; then
  for variables in "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0"; do
    for command in "pretrain small.yaml max_duration=1ba" "evaluate hf --data some.txt" "generate hf --prompt hi"; do
      status=0
      # shellcheck disable=SC2086
      env $variables timeout 60 "$programs"/$command > out 2> err || status=$?
      [[ $status == 1 ]] || { cat out err >&2; fail "$variables $command: status $status"; }
      says 'OMPI_COMM_WORLD_SIZE says that 2 processes were started, but MPI_Comm_size is 1'
    done
  done
fi
echo "wrong tokens and launchers: refused or said"
