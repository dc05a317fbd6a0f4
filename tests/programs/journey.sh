#!/usr/bin/env bash
# Evaluate, export, generate and import on a checkpoint: the numbers agree across the formats.
source "$(dirname "$0")/common.sh"

train save_folder=run model.learned_pos_emb=false model.no_bias=true \
  model.attn_config.alibi=true model.resid_pdrop=0.0
"$programs/evaluate" run --data data --json native.json > /dev/null 2>&1
"$programs/convert" run hf > /dev/null
[[ -f hf/config.json && -f hf/model.safetensors && -f hf/tokenizer.json ]] || fail "export"
"$programs/evaluate" hf --data data --json hf.json > /dev/null 2>&1
number() { grep "\"$2\"" "$1" | sed 's/.*: //; s/,$//'; }
[[ $(number native.json cross_entropy) == $(number hf.json cross_entropy) ]] || fail "export changed the loss"
"$programs/convert" hf imported > /dev/null
"$programs/evaluate" imported --data data --json imported.json > /dev/null 2>&1
[[ $(number native.json cross_entropy) == $(number imported.json cross_entropy) ]] || fail "import changed the loss"

first=$("$programs/generate" hf --prompt 'the' --max_new_tokens 12 2> /dev/null)
second=$("$programs/generate" run --prompt 'the' --max_new_tokens 12 2> /dev/null)
[[ -n $first && $first == "$second" ]] || fail "generation differs: '$first' and '$second'"
"$programs/convert" run hf 2> err && fail "an existing folder was replaced"
grep -q 'exists already' err || { cat err; fail "unclear message"; }
"$programs/pretrain" small.yaml save_folder=x max_duratoin=1ba 2> err && fail "a wrong key was accepted"
grep -q 'max_duration' err || { cat err; fail "the nearest key is not named"; }
echo "checkpoint, Hugging Face folder and import evaluate alike"
