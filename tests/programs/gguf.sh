#!/usr/bin/env bash
# GGUF files of an MPT and of the other families, read back with ggml's Python package where there
# is one; what is refused leaves no file.
source "$(dirname "$0")/common.sh"

"$programs/pretrain" small.yaml max_duration=2ba autoresume=false save_folder=run > log 2>&1 ||
  { cat log >&2; fail pretrain; }
"$programs/convert" run model.gguf --gguf > out || fail "convert --gguf"
grep -q 'note: llama.cpp computes GELU by its tanh approximation' out || { cat out >&2; fail "no note about GELU"; }
[[ $(head -c 4 model.gguf) == GGUF ]] || fail "not a GGUF file"
refused() { # words, arguments of convert
  if "$programs/convert" "${@:2}" > out 2> err; then fail "accepted: ${*:2}"; fi
  grep -q "$1" err || { cat err >&2; fail "another message: ${*:2}"; }
}
refused 'exists already' run model.gguf --gguf
"$programs/convert" run model.gguf --gguf --dtype float16 --replace > /dev/null || fail "convert --replace"
refused 'is no GGUF file' run small.yaml --gguf --replace
refused 'is a folder' run run --gguf
refused 'has the name of a GGUF file; add --gguf' run other.gguf
refused 'leave --max_shard_bytes out' run other.gguf --gguf --max_shard_bytes 1000
"$programs/pretrain" small.yaml max_duration=1ba autoresume=false save_folder=modern \
  model.norm_type=rmsnorm model.logit_scale=0.5 > log 2>&1 || { cat log >&2; fail pretrain; }
refused 'cannot hold this model: norms are rmsnorm.*; logits are scaled' modern other.gguf --gguf
[[ ! -e other.gguf && ! -e other.gguf.tmp ]] || fail "a refusal left a file behind"

if ! python3 -c 'import gguf, numpy, safetensors' 2> /dev/null; then
  echo "skipped: python3 lacks gguf, numpy or safetensors, which read the files back"
  exit 77
fi
configure() { # folder, config.json
  mkdir -p "$1"
  printf '%s\n' "$2" > "$1.json"
  sed "s|^model:.*|model: {name: hf_causal_lm, pretrained_model_name_or_path: $1, pretrained: false}|;
    /^  *resid_pdrop/d" small.yaml > "$1.yaml"
  cp tokenizer/* "$1"
  mv "$1.json" "$1/config.json"
  "$programs/pretrain" "$1.yaml" max_duration=1ba autoresume=false save_folder="$1-run" > log 2>&1 ||
    { cat log >&2; fail "pretrain $1"; }
}
sizes='"hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 512, "num_attention_heads": 4,
  "intermediate_size": 96, "max_position_embeddings": 64'
configure llama '{"model_type": "llama", "num_key_value_heads": 2, "head_dim": 16, '"$sizes"'}'
configure qwen2 '{"model_type": "qwen2", "num_key_value_heads": 2, '"$sizes"'}'
configure qwen3 '{"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16, '"$sizes"'}'
configure neox '{"model_type": "gpt_neox", "rotary_pct": 0.5, '"$sizes"'}'
configure starcoder2 '{"model_type": "starcoder2", "num_key_value_heads": 2, '"$sizes"'}'
configure stablelm '{"model_type": "stablelm", "num_key_value_heads": 2, "partial_rotary_factor": 0.5,
  "tie_word_embeddings": true, '"$sizes"'}'
configure olmo2 '{"model_type": "olmo2", '"$sizes"'}'
configure phi3 '{"model_type": "phi3", "num_key_value_heads": 2, "original_max_position_embeddings": 32,
  "rope_scaling": {"type": "longrope", "short_factor": [1, 1.5, 2, 2.5, 3, 4], "long_factor": [1, 2, 3, 4, 5, 6]}, '"$sizes"'}'
configure smollm3 '{"model_type": "smollm3", "num_key_value_heads": 2, '"${sizes/layers\": 2/layers\": 4}"'}'
configure granite '{"model_type": "granite", "num_key_value_heads": 2, "embedding_multiplier": 12.0, "logits_scaling": 8.0,
  "residual_multiplier": 0.22, "attention_multiplier": 0.125, '"$sizes"'}'
configure gemma '{"model_type": "gemma", "num_key_value_heads": 1, "head_dim": 16, '"$sizes"'}'
configure gemma2 '{"model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16,
  "sliding_window": 8, '"$sizes"'}'
configure gemma3 '{"model_type": "gemma3_text", "num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16,
  "sliding_window": 8, '"${sizes/layers\": 2/layers\": 6}"'}'
configure glm4 '{"model_type": "glm4", "num_key_value_heads": 2, "head_dim": 12, '"$sizes"'}'
experts='"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24'
configure mixtral '{"model_type": "mixtral", "num_key_value_heads": 2, "num_local_experts": 3, '"$sizes"'}'
configure olmoe '{"model_type": "olmoe", "num_experts": 4, "num_experts_per_tok": 3, '"$sizes"'}'
configure qwen2_moe '{"model_type": "qwen2_moe", "num_key_value_heads": 2, "shared_expert_intermediate_size": 40, '"$experts, $sizes"'}'
configure qwen3_moe '{"model_type": "qwen3_moe", "num_key_value_heads": 2, "head_dim": 16, "norm_topk_prob": true, '"$experts, $sizes"'}'
configure dbrx '{"model_type": "dbrx", "d_model": 48, "n_layers": 2, "n_heads": 4, "vocab_size": 512, "max_seq_len": 64,
  "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0}, "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}}'
configure gpt2 '{"model_type": "gpt2", "n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 512, "n_positions": 64}'
python3 "$source_root/tests/reference/check_gguf.py" "$programs/convert" run \
  {llama,qwen2,qwen3,neox,gpt2,starcoder2,stablelm,olmo2,phi3,smollm3,granite,gemma,gemma2,gemma3,glm4,mixtral,olmoe,qwen2_moe,qwen3_moe,dbrx}-run
