#!/usr/bin/env bash
# Models of other families than MPT through all programs: initial values from a config.json alone,
# the same losses under every layout, a folder that is the same after a conversion in and out,
# adapters under PEFT's names, and the plans of finetuning models of 7 and 8 billion parameters.
source "$(dirname "$0")/common.sh"

configure() { # folder, config.json
  mkdir -p "$1"
  cp tokenizer/* "$1"
  printf '%s\n' "$2" > "$1/config.json"
}
near() { # two files of losses, tolerance
  paste "$1" "$2" | awk -v most="$3" '
    { d = $2 - $5; if (d < 0) d = -d; if ($1 != $4 || d > most) bad = 1 }
    END { exit bad || NR == 0 }'
}
tensors() { tail -c +9 "$1/model.safetensors" | sha256sum; }

configure llama '{"model_type": "llama", "hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 512,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "head_dim": 16,
  "max_position_embeddings": 64, "tie_word_embeddings": true,
  "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}'
configure neox '{"model_type": "gpt_neox", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 512,
  "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 64}'
configure gpt2 '{"model_type": "gpt2", "n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 512,
  "n_positions": 64, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}'

configure olmo2 '{"model_type": "olmo2", "hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 512,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 64}'
configure phi3 '{"model_type": "phi3", "hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 512,
  "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 64, "original_max_position_embeddings": 24,
  "rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1], "long_factor": [1, 2, 3, 4, 5, 6]}}'
configure gemma3 '{"model_type": "gemma3_text", "hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 512,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "head_dim": 16, "sliding_window": 9,
  "max_position_embeddings": 64, "layer_types": ["sliding_attention", "full_attention"]}'

configure qwen3_moe '{"model_type": "qwen3_moe", "hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 512,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "moe_intermediate_size": 32, "head_dim": 16,
  "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": true, "max_position_embeddings": 64}'

for family in llama neox gpt2 olmo2 phi3 gemma3 qwen3_moe; do
  sed "s|^model:.*|model: {name: hf_causal_lm, pretrained_model_name_or_path: $family, pretrained: false}|;
    /^  *resid_pdrop/d" small.yaml > "$family.yaml"
  run() { # name, more arguments
    local name=$1
    "$programs/pretrain" "$family.yaml" max_duration=8ba autoresume=false metrics_file="$family-$name.jsonl" "${@:2}" \
      > log 2>&1 || { cat log >&2; fail "pretrain $family $name"; }
    losses "$family-$name.jsonl" > "$family-$name.losses"
  }
  run one ranks=1 save_folder="$family-run"
  first=$(head -n 1 "$family-one.losses" | cut -d' ' -f2)
  last=$(tail -n 1 "$family-one.losses" | cut -d' ' -f2)
  awk -v a="$first" -v b="$last" 'BEGIN { exit !(a > 6 && a < 6.6 && b < a) }' ||
    fail "$family: the loss begins at $first and ends at $last"
  run zero ranks=3 zero_stage=3
  run tensor ranks=2 parallelism.tensor=2
  run pipeline ranks=2 parallelism.pipeline=2
  run context ranks=2 parallelism.context=2
  layouts=(zero tensor pipeline context)
  if [[ $family == qwen3_moe ]]; then
    run experts ranks=4 zero_stage=3 parallelism.expert=2
    layouts+=(experts)
  fi
  for layout in "${layouts[@]}"; do
    near "$family-one.losses" "$family-$layout.losses" 2e-5 ||
      fail "$family: $layout has other losses: $(paste "$family-one.losses" "$family-$layout.losses")"
  done

  "$programs/convert" "$family-run" "$family-hf" > converted
  ! grep -q 'trust_remote_code' converted || fail "$family: convert speaks of code that the folder does not need"
  grep -q "\"model_type\": \"$(grep -o '"model_type": "[^"]*"' "$family/config.json" | cut -d'"' -f4)\"" \
    "$family-hf/config.json" || fail "$family: the export is of another family"
  "$programs/convert" "$family-hf" "$family-again" > /dev/null
  "$programs/convert" "$family-again" "$family-hf2" > /dev/null
  [[ $(tensors "$family-hf") == "$(tensors "$family-hf2")" ]] ||
    fail "$family: a conversion in and out changed tensors"
  generated() { "$programs/generate" "$1" --prompt 'the number of' --max_new_tokens 8 2> /dev/null; }
  [[ $(generated "$family-run") == "$(generated "$family-hf")" ]] ||
    fail "$family: checkpoint and folder generate other texts"
done

# the sampling that a model's files recommend
cp -r llama-hf llama-sampled
echo '{"do_sample": true, "temperature": 0.7, "top_p": 0.8, "top_k": 20}' > llama-sampled/generation_config.json
sampled() { "$programs/generate" "$@" --prompt 'the number of' --max_new_tokens 8 --seed 3 2> err; }
[[ $(sampled llama-sampled) == "$(sampled llama-hf --temperature 0.7 --top_p 0.8 --top_k 20)" ]] ||
  fail "sampled by other settings than generation_config.json's"
[[ $(sampled llama-sampled --tensor 2) == "$(sampled llama-sampled)" ]] || fail "sampled otherwise by two ranks"
sampled llama-sampled --temperature 0 > /dev/null
if grep -q ' means ' err; then fail "greedy with a note about sampling"; fi
sampled llama-sampled > /dev/null
grep -q 'means temperature 0.7, top_k 20, top_p 0.8;' err || { cat err >&2; fail "no note about sampling"; }

# adapters under PEFT's names
"$programs/pretrain" llama.yaml model.pretrained_model_name_or_path=llama-hf model.pretrained=true \
  'model.peft_config={peft_type: LORA, r: 4, lora_alpha: 8, target_modules: [q_proj, down_proj]}' \
  max_duration=8ba autoresume=false ranks=2 zero_stage=3 save_folder=llama-lora optimizer.lr=1e-2 > log 2>&1 ||
  { cat log >&2; fail 'LoRA'; }
"$programs/convert" llama-lora llama-adapter > /dev/null
grep -q '"q_proj"' llama-adapter/adapter_config.json || fail "the adapter has other names"
grep -aq 'base_model.model.model.layers.1.mlp.down_proj.lora_B.weight' \
  llama-adapter/adapter_model.safetensors || fail "the adapter's tensors have other names"
"$programs/convert" llama-lora llama-merged --merge > /dev/null

# the same adapters with the checkpoint of a full run, whose projection for q, k and v is one matrix
lora() { # name, more arguments
  "$programs/pretrain" llama.yaml \
    'model.peft_config={peft_type: LORA, r: 4, lora_alpha: 8, target_modules: [q_proj, down_proj]}' \
    max_duration=2ba autoresume=false ranks=2 metrics_file="$1.jsonl" "${@:2}" > log 2>&1 ||
    { cat log >&2; fail "LoRA on $1"; }
  losses "$1.jsonl" > "$1.losses"
}
lora folder model.pretrained_model_name_or_path=llama-hf model.pretrained=true
lora checkpoint load_path=llama-run load_weights_only=true
cmp folder.losses checkpoint.losses || fail "adapters with a checkpoint and with its folder differ"
head -c 20000 "${text[0]}" > held_out.txt
loss() { "$programs/evaluate" "$@" --data held_out.txt --seq_len 32 --json - 2> /dev/null |
  grep -o '"cross_entropy": *[0-9.]*' | grep -o '[0-9.]*$'; }
merged=$(loss llama-merged) beside=$(loss llama-hf --adapter llama-adapter) plain=$(loss llama-hf)
awk -v a="$merged" -v b="$beside" -v c="$plain" \
  'BEGIN { d = a - b; exit !(d < 1e-4 && d > -1e-4 && a < c - 1e-3) }' ||
  fail "merged $merged, as adapters $beside, without adapters $plain"

# overrides that cure what the file alone is refused for
cp -r llama-hf llama-odd
python3 - llama-odd/config.json << 'END_OF_FILE'
import json, sys
config = json.load(open(sys.argv[1]))
config["rope_scaling"] = {"rope_type": "proportional", "factor": 2.0}
json.dump(config, open(sys.argv[1], "w"))
END_OF_FILE
train_odd() { "$programs/pretrain" llama.yaml model.pretrained_model_name_or_path=llama-odd model.pretrained=true \
  max_duration=2ba autoresume=false ranks=1 "$@" > log 2>&1; }
train_odd && fail 'a rope_type that is not supported is taken'
grep -q 'rope_type: is "proportional"' log || { cat log >&2; fail 'the refusal does not name the type'; }
train_odd 'model.config_overrides={rope_scaling: {rope_type: linear, factor: 2.0}}' ||
  { cat log >&2; fail 'the override does not reach the weights'; }

# plans of whole models, from their config.json alone
for i in {1..2000}; do printf '{"prompt": "What is %d?", "response": "a number"}\n' "$i"; done > train.jsonl
cp train.jsonl test.jsonl
configure llama-8b '{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}'
configure qwen2-7b '{"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
  "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
  "vocab_size": 152064, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}'
configure mistral-7b '{"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "vocab_size": 32000, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"}'
plan() { "$programs/finetune" "$source_root/apps/configs/finetune_8x80gb.yaml" variables.model="$1" \
  variables.train=train.jsonl variables.test=test.jsonl dry_run=true device_memory=80GB "${@:2}" 2>&1; }
for model in llama-8b:8,030,261,248 qwen2-7b:7,615,616,512 mistral-7b:7,241,732,096; do
  for adapters in {} '{peft_type: LORA, r: 16, lora_alpha: 32, target_modules: all-linear}'; do
    plan "${model%%:*}" "model.peft_config=$adapters" > plan.txt || { cat plan.txt >&2; fail "$model $adapters"; }
    grep -q "parameters *${model#*:}" plan.txt || { cat plan.txt >&2; fail "$model: other parameters"; }
    grep -q '^fits: ' plan.txt || { cat plan.txt >&2; fail "$model $adapters does not fit"; }
  done
done
echo "families: initial values, layouts, conversion, adapters and plans agree"
