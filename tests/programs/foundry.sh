#!/usr/bin/env bash
# LLM Foundry's README as docs/llm-foundry.md has it, line by line, with a narrower model; and the
# plans of its finetuning recipes. Needs the shared sample data; without them 77: skipped.
# usage: foundry.sh PROGRAMS WORK
set -euo pipefail
programs=$1
work=$2
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
data=${PARALLELLM_DATA:-$source_root/../shared/data}
[[ -d $data/mpt/yamls ]] || { echo "skipped: no ../shared/data"; exit 77; }
data=$(cd "$data" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "FAILED: $*" >&2; exit 1; }

# What the page says must be here; of the model's widths and batches a fraction.
mkdir build
ln -s "$programs" build/apps
ln -s "$data/tokenizers/gpt-neox-20b" gpt-neox-20b
ln -s "$data/eval" eval
cp "$data"/c4/en/c4-train.00000-*.json.gz .
zcat "$data"/c4/en/c4-validation.*.json.gz | sed -n 1,40p | gzip > c4-validation.00000-of-00001.json.gz
sed -E '/^(train|eval)_loader/,/^# Optim/ s/(    max_seq_len): .*/\1: 64/
  s/(d_model): .*/\1: 16/; s/(n_heads): .*/\1: 2/; s/(n_layers): .*/\1: 1/
  s/(global_train_batch_size): .*/\1: 4/; s/^(device_.*_batch.*size): .*/\1: 4/' \
  "$data/mpt/yamls/pretrain/mpt-125m.yaml" > mpt-125m.yaml
sed -n '/^<!-- walk -->$/,/^```$/ { /^[<`]/d; p }' "$source_root/docs/llm-foundry.md" > walk.sh
[[ $(grep -c '^build/apps/' walk.sh) == 6 ]] || fail "the page's commands are not found"
bash -euo pipefail walk.sh > out 2> err || { cat out err >&2; fail "a command of docs/llm-foundry.md"; }
grep -q '| copa ' out || { cat out >&2; fail "no score of copa"; }
grep -q "^Here's a quick recipe" out || fail "no answer to a prompt"
grep -q '^bs=1, total_input_tokens=24, ' err || fail "no latencies"
[[ -f mpt-125m-hf/config.json && -f mpt-125m/ep0-ba10/manifest.json ]] || fail "a folder is missing"

# The recipes: read, tokenised and planned, with local paths for what they take from the hub.
mkdir mpt-7b mpt-30b dolly dolly15k
cp "$data/mpt/mpt-7b-instruct_config.json" mpt-7b/config.json
sed -E 's/("d_model": ).*/\17168,/; s/("n_heads": ).*/\164,/; s/("n_layers": ).*/\148,/' \
  mpt-7b/config.json > mpt-30b/config.json
for model in mpt-7b mpt-30b; do cp gpt-neox-20b/* $model; done
head -n 160 "$data/instruct/dolly_hhrlhf_train_small.jsonl" > dolly/train.jsonl
tail -n 20 "$data/instruct/dolly_hhrlhf_train_small.jsonl" | tee dolly/test.jsonl > dolly/validation.jsonl
for ((i = 0; i < 8; ++i)); do
  sed 's/"context":/"input":/; s/"response":/"output":/' "$data/instruct/dolly_first12_full_fields.jsonl"
done > dolly15k/train.jsonl
recipe() { # name of the file, then overrides: its plan, in "out"
  local name=$1
  shift
  "$programs/finetune" "$data/mpt/yamls/finetune/$name" dry_run=true ranks=8 device_memory=80GB "$@" \
    > out 2> err || { cat out err >&2; fail "$name does not fit"; }
  grep -q '^fits: ' out || fail "$name: whether it fits is not said"
}
recipe mpt-7b_dolly_sft.yaml mirrors.mosaicml/mpt-7b=mpt-7b mirrors.mosaicml/dolly_hhrlhf=dolly
recipe mpt-30b-instruct.yaml ranks=16 mirrors.mosaicml/mpt-30b=mpt-30b mirrors.mosaicml/instruct-v3=dolly \
  icl_tasks= train_loader.dataset.packing_ratio=2
recipe 7b_dolly_sft.yaml load_path=mpt-7b mirrors.HuggingFaceH4/databricks_dolly_15k=dolly15k \
  tokenizer.name=gpt-neox-20b
recipe 1b_local_data_sft.yaml load_path=mpt-7b tokenizer.name=gpt-neox-20b \
  {train,eval}_loader.dataset.hf_kwargs.data_dir=dolly {train,eval}_loader.dataset.preprocessing_fn=
if "$programs/finetune" "$data/mpt/yamls/finetune/gpt2-arc-easy-cpu-streaming-dataset.yaml" dry_run=true \
  > out 2> err; then fail "gpt2 is finetuned"; fi
grep -q "'gpt2' is no folder on this machine" err || { cat err >&2; fail "gpt2: another message"; }
echo "the README's commands work, and four recipes fit GPUs of 80 GB"
