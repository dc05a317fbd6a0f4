// Tests of every key that a training configuration may have: set to another value than its default,
// it changes the run, is refused, or is said to have no effect, with the reason. The reader records
// each key that it asks for; one that has no row here fails.
#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>
#include <support/known_keys.hpp>

#include "mpt/config/key_table.hpp"

namespace read_train_keys_test {

using row = test::key_row;
using test::overrides;
using enum test::key_effect;

constexpr char const* base = R"(
max_seq_len: 128
model: {name: mpt_causal_lm, d_model: 64, n_heads: 4, n_layers: 2, max_seq_len: 128,
  vocab_size: 512}
tokenizer: {name: gpt2}
train_loader: {name: text, dataset: {local: ./data}}
optimizer: {name: decoupled_adamw, lr: 6.0e-4}
scheduler: {name: cosine_with_warmup, t_warmup: 10ba}
max_duration: 100ba
global_train_batch_size: 8
)";

overrides const examples{"train_loader.name=finetuning",
                         "train_loader.dataset.local=", "train_loader.dataset.hf_name=d.jsonl"};
overrides const evaluates{"eval_loader={name: text, dataset: {local: ./e}}"};
overrides const shuffles{"train_loader.dataset.shuffle=true"};
overrides const saves{"save_folder=./s"};
overrides const hub{"HUB"};  ///< instead of the model above one of a Hugging Face folder
overrides const rope{"model.attn_config.rope=true"};
overrides const rope_hf{"model.attn_config.rope=true", "model.attn_config.rope_impl=hf",
                        "model.attn_config.rope_hf_config.type=linear"};
overrides const llama{
    "model.attn_config.rope=true", "model.attn_config.rope_impl=hf",
    "model.attn_config.rope_hf_config={type: llama3, factor: 2, low_freq_factor: 1, "
    "high_freq_factor: 4, original_max_position_embeddings: 64}"};
overrides const yarn{"model.attn_config.rope=true", "model.attn_config.rope_impl=hf",
                     "model.attn_config.rope_hf_config={type: yarn, factor: 2, "
                     "original_max_position_embeddings: 64}"};
overrides const lora{"model.peft_config.r=4"};
overrides const muon{"optimizer.name=muon"};
overrides const groups{"optimizer.param_groups=[{param_str_match: norm}]"};
overrides const stops{
    "callbacks.early_stopper={monitor: LanguageCrossEntropy, dataloader_label: train}"};
overrides const spikes{"callbacks.kill_loss_spike={}"};
overrides const writes{"callbacks.generate_callback={prompts: [a], interval: 1ep}"};
overrides const samples{
    "callbacks.generate_callback={prompts: [a], interval: 1ep, temperature: 1}"};
overrides const exports{"callbacks.hf_checkpointer={save_folder: x, save_interval: 1ep}"};
overrides const remote{"train_loader.dataset.remote=s3://bucket/c4"};
overrides const streams{"train_loader.dataset.local=",
                        "train_loader.dataset.streams={a: {local: a}, b: {local: b}}"};
overrides const tasks{
    "icl_tasks=[{label: a, dataset_uri: FOLDER/rows.jsonl, icl_task_type: "
    "generation_task_with_answers, num_fewshot: [0]}]"};
overrides const choices{
    "icl_tasks=[{label: a, dataset_uri: FOLDER/rows.jsonl, icl_task_type: "
    "multiple_choice, num_fewshot: [0]}]"};
overrides const gauntlet{
    tasks[0],
    "eval_gauntlet={categories: [{name: c, benchmarks: [{name: a, num_fewshot: 0, "
    "random_baseline: 0.1}]}]}"};
overrides const layers{
    "model.block_overrides={order: [{name: default}, {name: own}], overrides: {own: {attn_config: "
    "{sliding_window_size: 5}}}}"};
overrides const inverse_root{"scheduler.name=inv_sqrt_with_warmup", "scheduler.t_scale=10ba",
                             "scheduler.t_cooldown=10ba"};

[[nodiscard]] overrides operator+(overrides left, overrides const& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

std::vector<row> rows_of_model() {
  return {
      {changes, "model.d_model=128"},
      {changes, "model.n_heads=2"},
      {changes, "model.n_layers=3"},
      {changes, "model.max_seq_len=256"},
      {changes, "model.vocab_size=600"},
      {changes, "model.expansion_ratio=2"},
      {listed,
       "model.expansion_ratio=2",
       "ffn_hidden_size",
       {"model.ffn_config.ffn_hidden_size=9"}},
      {changes, "model.resid_pdrop=0.1"},
      {changes, "model.emb_pdrop=0.1"},
      {changes, "model.norm_eps=1e-6"},
      {changes, "model.head_dim=8"},
      {changes, "model.family=llama"},
      {changes, "model.parallel_residual=true"},
      {changes, "model.learned_pos_emb=false"},
      {listed, "model.learned_pos_emb=true", "in its place", {"model.attn_config.alibi=true"}},
      {changes, "model.no_bias=true"},
      {changes, "model.attention_bias=false"},
      {changes, "model.out_proj_bias=false"},
      {changes, "model.norm_type=rmsnorm"},
      {changes, "model.logit_scale=inv_sqrt_d_model"},
      {changes, "model.tie_word_embeddings=false"},
      {changes, "model.embedding_fraction=0.5"},
      {changes, "model.final_logit_softcapping=30"},
      {listed, "model.fuse_norm_attn_norm=true", "groups modules"},
      {refused, "model.additional_train_metrics=[a]", "always measured"},
      {refused, "model.master_weights_dtype=bfloat16", "float32"},
      {listed, "model.init_device=meta", "created on the device that trains"},
      {listed, "model.loss_fn=torch_crossentropy", "one cross entropy"},
      {listed, "model.use_train_metrics=false", "cost nothing"},
      {listed, "model.use_cache=true", "always keeps"},
      {listed, "model.use_pad_tok_in_ffn=false", "no padding"},
      {listed, "model.verbose=1", "no further messages"},
      {refused, "model.name=mpt", "use mpt_causal_lm"},
      {refused, "model.fc_type=te", "use torch"},
      {refused, "model.fc_type.name=te", "use torch"},
      {listed, "model.fc_type.bias=false", "decide"},
      {listed, "model.fc_type.device=meta", "on the device that trains"},
      {refused, "model.ffn_config.fc_type=te", "use torch"},
      {changes, "model.ffn_config.ffn_type=mptglu"},
      {refused, "model.ffn_config.ffn_type=te_ln_mlp", "use mptmlp or mptglu"},
      {changes, "model.ffn_config.ffn_hidden_size=100"},
      {changes, "model.ffn_config.ffn_act_fn.name=relu"},
      {changes, "model.ffn_config.ffn_act_fn.approximate=tanh"},
      {changes, "model.init_config.name=small_init_"},
      {changes, "model.init_config.emb_init_std=0.1"},
      {listed,
       "model.init_config.emb_init_std=0.1",
       "PyTorch's own",
       {"model.init_config.name=default_"}},
      {changes, "model.init_config.emb_init_uniform_lim=0.1"},
      {listed,
       "model.init_config.emb_init_uniform_lim=0.1",
       "PyTorch's own",
       {"model.init_config.name=default_"}},
      {changes, "model.init_config.init_div_is_residual=false"},
      {changes,
       "model.init_config.init_std=0.1",
       "",
       {"model.init_config={name: baseline_, init_std: 0.02}"}},
      {listed, "model.init_config.init_std=0.1", "baseline_"},
      {changes,
       "model.init_config.init_gain=2",
       "",
       {"model.init_config={name: xavier_normal_, init_gain: 1}"}},
      {listed, "model.init_config.init_gain=2", "xavier"},
      {changes, "model.init_config.fan_mode=fan_out"},
      {listed,
       "model.init_config.fan_mode=fan_out",
       "kaiming",
       {"model.init_config.name=neox_init_"}},
      {changes, "model.init_config.init_nonlinearity=linear"},
      {listed,
       "model.init_config.init_nonlinearity=linear",
       "kaiming",
       {"model.init_config.name=neox_init_"}},
      {listed, "model.init_config.verbose=2", "no further messages"},
      {noted, "model.activation_checkpointing_target=mptmlp", "has no effect without"},
      {changes,
       "model.activation_checkpointing_target=mptmlp",
       "",
       {"fsdp_config.activation_checkpointing=true"}},
      {changes,
       "model.block_overrides={order: [{name: default}, {name: own}], overrides: {own: "
       "{attn_config: {nope: true}}}}",
       "",
       {"model.attn_config.alibi=true"}},
      {refused, "model.block_overrides.repeat=2", "more layers than", layers},
      {changes, "model.block_overrides.order.0.name=own", "", layers},
      {changes, "model.block_overrides.order.0={name: , order: [{name: own}]}", "", layers},
      {refused, "model.block_overrides.order.0.order=[{name: own}]", "exactly one of", layers},
      {refused, "model.block_overrides.order.0.order.0.name=own", "exactly one of", layers},
      {refused, "model.block_overrides.order.0.order.0.repeat=2", "exactly one of", layers},
      {changes, "model.block_overrides.order=[{name: own, repeat: 2}]", "", layers},
      {refused, "model.block_overrides.order.0.repeat=2", "more layers than", layers},
      {changes, "model.block_overrides.overrides.own.attn_config.sliding_window_size=6", "",
       layers},
      {changes, "model.block_overrides.overrides.own.attn_config.nope=true", "",
       layers + overrides{"model.attn_config.alibi=true"}},
      {changes,
       "model.block_overrides.overrides.own.attn_config.attn_temperature_tuning.floor_scale=9", "",
       layers},
      {changes,
       "model.block_overrides.overrides.own.attn_config.attn_temperature_tuning.attn_scale=1", "",
       layers},
      {changes, "model.block_overrides.overrides.own.attn_config.reuse_kv_layer_idx=-1", "",
       layers},
      {refused, "model.block_overrides.overrides.own.attn_config.reuse_kv_x_layer_idx=-1",
       "is no replacement", layers},
  };
}

std::vector<row> rows_of_attention() {
  return {
      {changes, "model.attn_config.attn_type=multiquery_attention"},
      {changes,
       "model.attn_config.kv_n_heads=2",
       "",
       {"model.attn_config={attn_type: grouped_query_attention, kv_n_heads: 1}"}},
      {refused, "model.attn_config.kv_n_heads=2", "belongs to attn_type grouped_query_attention"},
      {changes, "model.attn_config.attn_pdrop=0.1"},
      {changes, "model.attn_config.clip_qkv=6"},
      {changes, "model.attn_config.fused_qkv=false"},
      {changes, "model.attn_config.qk_ln=true"},
      {changes, "model.attn_config.qk_gn=true"},
      {changes, "model.attn_config.qk_norm_eps=1e-6"},
      {changes, "model.attn_config.rotary_dim=8", "", rope},
      {listed, "model.attn_config.rotary_dim=8", "belongs to rope"},
      {changes, "model.attn_config.norm_type=rmsnorm", "", {"model.attn_config.qk_ln=true"}},
      {listed, "model.attn_config.norm_type=rmsnorm", "qk_ln and qk_gn"},
      {changes, "model.attn_config.softmax_scale=0.5"},
      {changes, "model.attn_config.attn_logit_softcapping=50"},
      {changes, "model.attn_config.sliding_window_size=16"},
      {changes,
       "model.attn_config.attn_uses_sequence_id=true",
       "",
       {"train_loader.dataset.eos_token_id=0"}},
      {refused, "model.attn_config.attn_uses_sequence_id=true", "where texts end"},
      {changes, "model.attn_config.alibi=true"},
      {changes, "model.attn_config.alibi_bias_max=4", "", {"model.attn_config.alibi=true"}},
      {listed, "model.attn_config.alibi_bias_max=4", "belongs to alibi"},
      {changes, "model.attn_config.rope=true"},
      {listed, "model.attn_config.rope_theta=5", "belongs to rope"},
      {changes, "model.attn_config.rope_theta=5", "", rope},
      {listed, "model.attn_config.rope_impl=hf", "belongs to rope"},
      {changes, "model.attn_config.rope_hf_config.type=dynamic", "", rope_hf},
      {changes, "model.attn_config.rope_hf_config.factor=3", "", rope_hf},
      {changes, "model.attn_config.rope_hf_config.low_freq_factor=2", "", llama},
      {changes, "model.attn_config.rope_hf_config.high_freq_factor=5", "", llama},
      {changes, "model.attn_config.rope_hf_config.original_max_position_embeddings=32", "", llama},
      {changes, "model.attn_config.rope_hf_config.beta_fast=16", "", yarn},
      {changes, "model.attn_config.rope_hf_config.beta_slow=2", "", yarn},
      {changes, "model.attn_config.rope_hf_config.truncate=false", "", yarn},
      {changes, "model.attn_config.rope_hf_config.attention_factor=1.5", "", yarn},
      {listed, "model.attn_config.rope_hf_config.beta_fast=16", "type yarn", rope_hf},
      {listed, "model.attn_config.rope_hf_config.beta_slow=2", "type yarn", rope_hf},
      {listed, "model.attn_config.rope_hf_config.truncate=false", "type yarn", rope_hf},
      {listed, "model.attn_config.rope_hf_config.attention_factor=2", "type yarn", rope_hf},
      {listed, "model.attn_config.rope_hf_config.low_freq_factor=2", "llama3", rope_hf},
      {listed, "model.attn_config.rope_hf_config.high_freq_factor=5", "llama3", rope_hf},
      {listed, "model.attn_config.rope_hf_config.original_max_position_embeddings=32", "llama3",
       rope_hf},
      {listed, "model.attn_config.rope_hf_config.factor=3", "no_scaling",
       rope + overrides{"model.attn_config.rope_impl=hf"}},
      {listed, "model.attn_config.rope_hf_config={type: linear}", "belongs to rope_impl hf", rope},
      {changes, "model.attn_config.rope_dail_config.type=xpos", "", rope},
      {listed, "model.attn_config.rope_dail_config.xpos_scale_base=256", "type xpos", rope},
      {changes, "model.attn_config.rope_dail_config.xpos_scale_base=256", "",
       rope + overrides{"model.attn_config.rope_dail_config.type=xpos"}},
      {listed, "model.attn_config.rope_dail_config.pos_idx_in_fp32=false", "in double", rope},
      {listed, "model.attn_config.rope_dail_config={type: xpos}", "rope_impl dail", rope_hf},
      {changes,
       "model.attn_config.attn_temperature_tuning.floor_scale=64",
       "",
       {"model.attn_config.attn_temperature_tuning.attn_scale=0.1"}},
      {changes, "model.attn_config.attn_temperature_tuning.attn_scale=0.1"},
      {listed, "model.attn_config.attn_temperature_tuning.floor_scale=64", "attn_scale"},
      {listed, "model.attn_config.attn_impl=flash", "one implementation"},
      {listed, "model.attn_config.verbose=1", "no further messages"},
      {refused, "model.attn_config.nope=true", "block_overrides"},
      {refused, "model.attn_config.kv_dim=32", "cross-attention"},
      {refused, "model.attn_config.prefix_lm=true", "causal"},
      {refused, "model.attn_config.seq_parallel_world_size=2", "leave it blank"},
  };
}

std::vector<row> rows_of_hub_and_adapters() {
  return {
      {changes, "model.pretrained=false", "", hub},
      {refused, "model.pretrained_model_name_or_path=elsewhere", "no folder on this machine", hub},
      {changes, "model.config_overrides.emb_pdrop=0.1", "", hub},
      {listed, "model.config_overrides.attn_config.norm_type=rmsnorm", "qk_ln and qk_gn", hub},
      {listed, "model.use_auth_token=true", "its code is never run", hub},
      {listed, "model.trust_remote_code=true", "its code is never run", hub},
      {listed, "model.use_flash_attention_2=true", "one implementation", hub},
      {listed, "model.attn_implementation=eager", "one implementation", hub},
      {listed, "model.init_device=meta", "on the device that trains", hub},
      {listed, "model.use_train_metrics=false", "cost nothing", hub},
      {refused, "model.additional_train_metrics=[a]", "always measured", hub},
      {refused, "model.additional_eval_metrics=[a]", "always measured", hub},
      {refused, "model.load_in_8bit=true", "use false", hub},
      {refused, "model.allow_embedding_resizing=true", "stays as it is", hub},
      {changes, "model.pretrained_lora_id_or_path=FOLDER/adapter"},
      {refused, "model.pretrained_lora_id_or_path=nowhere", "is no folder"},
      {refused, "model.should_save_peft_only=false", "holds only the adapter"},
      {changes, "model.peft_config.r=8", "", lora},
      {changes, "model.peft_config.lora_alpha=3", "", lora},
      {changes, "model.peft_config.lora_dropout=0.1", "", lora},
      {changes, "model.peft_config.use_rslora=true", "", lora},
      {changes, "model.peft_config.target_modules=all-linear", "", lora},
      {refused, "model.peft_config.peft_type=IA3", "use LORA", lora},
      {refused, "model.peft_config.task_type=SEQ_CLS", "CAUSAL_LM", lora},
      {refused, "model.peft_config.bias=all", "use none", lora},
      {refused, "model.peft_config.init_lora_weights=pissa", "use true", lora},
      {refused, "model.peft_config.use_dora=true", "use false", lora},
      {refused, "model.peft_config.use_qalora=true", "use false", lora},
      {refused, "model.peft_config.use_bdlora=true", "use false", lora},
      {refused, "model.peft_config.fan_in_fan_out=true", "use false", lora},
      {refused, "model.peft_config.lora_bias=true", "use false", lora},
      {refused, "model.peft_config.modules_to_save=[a]", "leave it out", lora},
      {changes, "model.peft_config.rank_pattern={Wqkv: 1}", "", lora},
      {changes, "model.peft_config.alpha_pattern={Wqkv: 1}", "", lora},
      {refused, "model.peft_config.layers_to_transform=[1]", "leave it out", lora},
      {refused, "model.peft_config.layers_pattern=a", "leave it out", lora},
      {refused, "model.peft_config.layer_replication=[1]", "leave it out", lora},
      {refused, "model.peft_config.exclude_modules=[a]", "leave it out", lora},
      {refused, "model.peft_config.target_parameters=[a]", "leave it out", lora},
      {refused, "model.peft_config.trainable_token_indices=[1]", "leave it out", lora},
      {listed, "model.peft_config.base_model_name_or_path=a", "belongs to the model of this YAML",
       lora},
      {listed, "model.peft_config.revision=a", "belongs to the model of this YAML", lora},
      {listed, "model.peft_config.inference_mode=true", "belongs to the model of this YAML", lora},
      {listed, "model.peft_config.auto_mapping=a", "belongs to the model of this YAML", lora},
      {listed, "model.peft_config.peft_version=1", "belongs to the model of this YAML", lora},
      {changes, "mirrors.gpt2=/t"},
      {listed, "mirrors.gpt3=/t", "no value of this configuration equals this name"},
      {changes, "tokenizer.name=other"},
      {listed, "tokenizer.kwargs.model_max_length=64", "max_seq_len"},
      {listed, "tokenizer.kwargs.use_fast=false", "tokenizer.json"},
      {listed, "tokenizer.kwargs.trust_remote_code=true", "tokenizer.json"},
      {listed, "tokenizer.kwargs.padding_side=left", "tokenizer.json"},
      {refused, "tokenizer.kwargs.add_bos_token=true", "--bos_text"},
      {refused, "tokenizer.kwargs.add_eos_token=true", "--eos_text"},
  };
}

std::vector<row> rows_of_optimisation() {
  return {
      {changes, "optimizer.name=decoupled_lionw"},
      {refused, "optimizer.name=adalr_lion", "not yet supported"},
      {changes, "optimizer.lr=1e-4"},
      {changes, "optimizer.betas=[0.8, 0.9]"},
      {changes, "optimizer.eps=1e-6"},
      {listed, "optimizer.eps=1e-6", "has none", {"optimizer.name=decoupled_lionw"}},
      {refused, "optimizer.amsgrad=true", "use false"},
      {changes, "optimizer.weight_decay=1e-6"},
      {changes, "optimizer.disable_grad=wte"},
      {changes, "optimizer.param_groups=[{param_str_match: norm, lr: 1}]"},
      {changes, "optimizer.param_groups.0.param_str_match=bias", "", groups},
      {changes, "optimizer.param_groups.0.lr=1e-5", "", groups},
      {changes, "optimizer.param_groups.0.betas=[0.8, 0.9]", "", groups},
      {changes, "optimizer.param_groups.0.eps=1e-6", "", groups},
      {refused, "optimizer.param_groups.0.amsgrad=true", "use false", groups},
      {changes, "optimizer.param_groups.0.weight_decay=0.5", "", groups},
      {changes, "optimizer.momentum=0.9", "", muon},
      {changes, "optimizer.nesterov=false", "", muon},
      {changes, "optimizer.ns_steps=3", "", muon},
      {changes, "optimizer.adjust_lr_fn=match_rms_adamw", "", muon},
      {changes, "optimizer.eps=1e-6", "", muon},
      {refused, "optimizer.betas=[0.8, 0.9]", "is not known to muon", muon},
      {refused, "optimizer.param_groups=[{param_str_match: norm}]", "is not known to muon", muon},
      {changes, "optimizer.adamw.lr=1", "", muon},
      {changes, "optimizer.adamw.betas=[0.8, 0.9]", "", muon},
      {changes, "optimizer.adamw.eps=1e-6", "", muon},
      {refused, "optimizer.adamw.amsgrad=true", "use false", muon},
      {changes, "optimizer.adamw.weight_decay=0.5", "", muon},
      {changes, "scheduler.name=linear_decay_with_warmup"},
      {changes, "scheduler.t_warmup=0.1dur"},
      {noted,
       "scheduler.t_warmup=200ba",
       "does not come to its value",
       {"scheduler.t_warmup=200ba"}},
      {changes, "scheduler.t_max=200ba"},
      {refused, "scheduler.t_max=50ba", "shorter than max_duration"},
      {listed, "scheduler.t_max=200ba", "stays as it is", {"scheduler.name=constant_with_warmup"}},
      {changes, "scheduler.alpha=0.5", "", {"scheduler.name=constant_with_warmup"}},
      {refused, "scheduler.alpha=0.5", "unknown key"},
      {changes, "scheduler.alpha_i=0.5", "", {"scheduler.name=linear_decay_with_warmup"}},
      {changes, "scheduler.alpha_f=0.1"},
      {listed, "scheduler.scale_warmup=true", "never rescaled"},
      {changes, "scheduler.t_scale=20ba", "", inverse_root},
      {changes, "scheduler.t_cooldown=20ba", "", inverse_root},
      {changes, "scheduler.alpha_f_decay=0.1", "", inverse_root},
      {changes, "scheduler.alpha_f_cooldown=0.1", "",
       inverse_root + overrides{"scheduler.alpha_f_decay=0.2"}},
      {changes, "algorithms.gradient_clipping.clipping_threshold=1"},
      {changes,
       "algorithms.gradient_clipping.clipping_type=value",
       "",
       {"algorithms.gradient_clipping.clipping_threshold=1"}},
      {refused, "algorithms.gradient_clipping.clipping_type=value", "missing; it is required"},
      {refused, "algorithms.gradient_clipping={}", "missing; it is required"},
      {refused, "algorithms.alibi={}", "set model.attn_config.alibi: true"},
      {listed, "algorithms.alibi={}", "the model is so", {"model.attn_config.alibi=true"}},
      {refused,
       "algorithms.alibi={max_sequence_length: 9}",
       "leave it out",
       {"model.attn_config.alibi=true"}},
      {refused, "algorithms.gated_linear_units={}", "set model.ffn_config.ffn_type: mptglu"},
      {listed,
       "algorithms.gated_linear_units={}",
       "the model is so",
       {"model.ffn_config.ffn_type=mptglu"}},
      {listed, "algorithms.low_precision_layernorm={}", "the model is so"},
      {refused,
       "algorithms.low_precision_layernorm={}",
       "set model.norm_type",
       {"model.norm_type=layernorm"}},
      {changes, "global_train_batch_size=16"},
      {changes, "device_train_microbatch_size=2"},
      {changes, "max_duration=10ba", "", {"scheduler.t_warmup=1ba"}},
      {changes, "train_subset_num_batches=5"},
      {changes, "seed=5"},
      {changes, "precision=fp32"},
      {refused, "precision=amp_fp8", "use fp32 or amp_bf16"},
      {refused, "accumulate_train_batch_on_tokens=false", "weighted by tokens"},
      {refused, "device_train_batch_size=8", "it follows from"},
      {refused, "device_train_grad_accum=2", "it follows from"},
      {refused, "n_gpus=8", "it follows from"},
  };
}

std::vector<row> rows_of_callbacks() {
  std::vector<row> out{
      {changes, "callbacks.speed_monitor.window_size=5"},
      {changes, "callbacks.speed_monitor.gpu_flops_available=1e12"},
      {changes, "callbacks.speed_monitor.time_unit=minutes"},
      {changes, "callbacks.early_stopper.monitor=TokenAccuracy", "", stops},
      {changes, "callbacks.early_stopper.dataloader_label=eval", "", stops},
      {changes, "callbacks.early_stopper.comp=greater", "", stops},
      {changes, "callbacks.early_stopper.min_delta=0.5", "", stops},
      {changes, "callbacks.early_stopper.patience=5ba", "", stops},
      {changes, "callbacks.kill_loss_spike.log_only=false", "", spikes},
      {changes, "callbacks.kill_loss_spike.patience=5", "", spikes},
      {changes, "callbacks.kill_loss_spike.outlier_multiplier=5", "", spikes},
      {changes, "callbacks.kill_loss_spike.window_size=5", "", spikes},
      {changes, "callbacks.kill_loss_spike.loss_cap=5", "", spikes},
      {changes, "callbacks.generate_callback.prompts=[b]", "", writes},
      {changes, "callbacks.generate_callback.interval=5ba", "", writes},
      {changes, "callbacks.generate_callback.max_new_tokens=5", "", writes},
      {changes, "callbacks.generate_callback.do_sample=true", "", writes},
      {changes, "callbacks.generate_callback.temperature=0.5", "", writes},
      {changes, "callbacks.generate_callback.top_k=5", "", samples},
      {changes, "callbacks.generate_callback.top_p=0.5", "", samples},
      {listed, "callbacks.generate_callback.batch_size=5", "one by one", writes},
      {listed, "callbacks.generate_callback.use_cache=false", "always cached", writes},
      {changes, "callbacks.hf_checkpointer.save_folder=y", "", exports},
      {changes, "callbacks.hf_checkpointer.save_interval=5ba", "", exports},
      {changes, "callbacks.hf_checkpointer.huggingface_folder_name=z", "", exports},
      {changes, "callbacks.hf_checkpointer.precision=bfloat16", "", exports},
      {changes, "callbacks.hf_checkpointer.overwrite=false", "", exports},
      {refused, "callbacks.hf_checkpointer.mlflow_registered_model_name=a", "MLflow", exports},
      {refused, "callbacks.hf_checkpointer.mlflow_logging_config={a: 1}", "MLflow", exports},
      {refused, "callbacks.hf_checkpointer.final_register_only=true", "belongs to", exports},
      {listed, "callbacks.hf_checkpointer.flatten_imports=[a]", "one small", exports},
      {listed, "callbacks.hf_checkpointer.register_wait_seconds=5", "nothing is", exports},
      {changes, "callbacks.optimizer_monitor={}"},
      {changes,
       "callbacks.optimizer_monitor.batch_log_interval=5",
       "",
       {"callbacks.optimizer_monitor={}"}},
      {listed,
       "callbacks.optimizer_monitor.log_optimizer_metrics=false",
       "all are logged",
       {"callbacks.optimizer_monitor={}"}},
      {listed,
       "callbacks.optimizer_monitor.only_global=true",
       "all are logged",
       {"callbacks.optimizer_monitor={}"}},
      {changes, "callbacks.layer_freezing.layer_names=[a]"},
      {listed, "callbacks.lr_monitor={}", "always on"},
      {refused, "callbacks.lr_monitor.a=1", "unknown key"},
      {listed, "callbacks.nan_monitor={}", "always on"},
      {listed, "callbacks.memory_monitor={}", "always on"},
      {refused, "callbacks.memory_monitor.memory_keys={a: b}", "one name each"},
      {refused, "callbacks.memory_monitor.dist_aggregate_batch_interval=5", "rank 0"},
      {changes, "callbacks.runtime_estimator.time_unit=minutes"},
      {changes, "callbacks.runtime_estimator.skip_batches=5"},
      {listed, "callbacks.scheduled_gc={batch_interval: 5}", "no garbage collector"},
      {changes, "loggers.tensorboard.log_dir=x"},
      {listed,
       "loggers.tensorboard.flush_interval=5",
       "written at once",
       {"loggers.tensorboard={}"}},
      {listed,
       "loggers.tensorboard.rank_zero_only=false",
       "rank 0 writes",
       {"loggers.tensorboard={}"}},
      {changes, "loggers.csv.filename=x"},
      {refused, "loggers.wandb.log_artifacts=true", "checkpoints stay in save_folder"},
      {refused, "loggers.wandb.rank_zero_only=false", "rank 0 logs for all"},
      {listed, "loggers.wandb.init_kwargs.save_code=true", "no Python code", {"loggers.wandb={}"}},
      {listed, "loggers.wandb.init_kwargs.reinit=true", "one client", {"loggers.wandb={}"}},
      {refused, "loggers.mlflow.rank_zero_only=false", "rank 0 logs for all"},
      {refused, "loggers.mlflow.synchronous=true", "does not wait"},
      {refused, "loggers.mlflow.model_registry_prefix=a", "MLflow's own client"},
      {refused, "loggers.mlflow.model_registry_uri=a", "MLflow's own client"},
      {listed, "loggers.mlflow.log_system_metrics=true", "of the run", {"loggers.mlflow={}"}},
      {listed, "loggers.mlflow.resume=true", "its own MLflow run", {"loggers.mlflow={}"}},
      {listed,
       "loggers.mlflow.log_duplicated_metric_every_n_steps=5",
       "every value is logged",
       {"loggers.mlflow={}"}},
  };
  for (std::string const setting : {"wandb.project=x",
                                    "wandb.name=x",
                                    "wandb.group=x",
                                    "wandb.python=x",
                                    "wandb.entity=x",
                                    "wandb.tags=[a]",
                                    "wandb.init_kwargs.id=x",
                                    "wandb.init_kwargs.mode=offline",
                                    "wandb.init_kwargs.dir=x",
                                    "wandb.init_kwargs.job_type=x",
                                    "wandb.init_kwargs.notes=x",
                                    "wandb.init_kwargs.resume=must",
                                    "trackio.project=x",
                                    "trackio.name=x",
                                    "trackio.group=x",
                                    "trackio.python=x",
                                    "trackio.init_kwargs.resume=must",
                                    "mlflow.tracking_uri=http://h",
                                    "mlflow.experiment_name=x",
                                    "mlflow.run_name=x",
                                    "mlflow.run_group=x",
                                    "mlflow.tags={a: b}",
                                    "mlflow.ignore_metrics=[a]",
                                    "mlflow.ignore_hyperparameters=[a]",
                                    "mlflow.rename_metrics={a: b}",
                                    "mlflow.flush_interval=5",
                                    "mlflow.logging_buffer_seconds=5"})
    out.push_back({changes, "loggers." + setting});
  for (std::string const greedy : {"top_k=5", "top_p=0.5"})
    out.push_back({listed, "callbacks.generate_callback." + greedy, "temperature is 0", writes});
  out.push_back({listed, "callbacks.generate_callback.temperature=1", "do_sample is false",
                 writes + overrides{"callbacks.generate_callback.do_sample=false"}});
  for (std::string const name :
       {"system_metrics_monitor", "memory_snapshot", "oom_observer", "env_logging",
        "eval_output_logging", "loss_perp_v_len", "mbmoe_tok_per_expert", "fdiff_metrics",
        "run_timeout", "global_lr_scaling", "mono_checkpoint_saver", "load_checkpoint",
        "async_eval", "curriculum_learning", "dataset_swap"})
    out.push_back({refused, "callbacks." + name + "={}", "leave it out"});
  for (std::string const name :
       {"mosaicml", "inmemory_logger", "in_memory_logger", "comet_ml", "neptune", "file_logger",
        "slack_logger", "remote_uploader_downloader"})
    out.push_back({refused, "loggers." + name + "={}", "metrics go to"});
  return out;
}

std::vector<row> rows_of_data() {
  std::vector<row> out{
      {changes, "train_loader.name=finetuning", "", {}},
      {listed, "train_loader.label=x", "tells evaluation sets apart"},
      {changes, "eval_loader.label=x", "", evaluates},
      {listed, "train_loader.drop_last=false", "leaves out"},
      {listed, "eval_loader.drop_last=true", "takes all there is", evaluates},
      {changes, "train_loader.dataset.local=./other"},
      {changes, "train_loader.dataset.remote=/net"},
      {refused, "train_loader.dataset.remote=/net", "one or the other", examples},
      {changes, "train_loader.dataset.split=train"},
      {changes, "train_loader.dataset.shuffle=true"},
      {listed, "eval_loader.dataset.shuffle=true", "in the order it has", evaluates},
      {changes, "train_loader.dataset.shuffle_seed=5", "", shuffles},
      {listed, "train_loader.dataset.shuffle_seed=5", "shuffle is false"},
      {listed, "eval_loader.dataset.shuffle_seed=5", "in the order", evaluates},
      {changes, "train_loader.dataset.shuffle_algo=naive", "", shuffles},
      {listed, "train_loader.dataset.shuffle_algo=naive", "shuffle is false"},
      {listed, "train_loader.dataset.shuffle_algo=naive", "whole set", examples},
      {changes, "train_loader.dataset.shuffle_block_size=5", "", shuffles},
      {listed, "train_loader.dataset.shuffle_block_size=5", "shuffle is false"},
      {listed, "train_loader.dataset.shuffle_block_size=5", "belongs to py1b",
       shuffles + overrides{"train_loader.dataset.shuffle_algo=py2s"}},
      {listed, "train_loader.dataset.shuffle_block_size=5", "whole set", examples},
      {changes, "train_loader.dataset.max_seq_len=64"},
      {changes, "train_loader.dataset.token_encoding_type=uint16"},
      {listed, "train_loader.dataset.token_encoding_type=uint16", "MDS sets", examples},
      {changes, "train_loader.dataset.eos_token_id=5"},
      {changes, "train_loader.dataset.bos_token_id=5"},
      {listed, "train_loader.dataset.eos_token_id=5", "without separators", examples},
      {listed, "train_loader.dataset.bos_token_id=5", "without separators", examples},
      {changes, "train_loader.dataset.epoch_size=50"},
      {refused, "train_loader.dataset.epoch_size=50", "every example once", examples},
      {refused, "train_loader.dataset.batching_method=stratified", "mixed evenly", streams},
      {listed, "train_loader.dataset.batching_method=stratified", "one stream"},
      {refused, "train_loader.dataset.sampling_method=fixed", "equally often", streams},
      {listed, "train_loader.dataset.sampling_method=fixed", "one stream"},
      {refused, "train_loader.dataset.mlm_probability=0.1", "none is masked"},
      {refused, "train_loader.dataset.replication=2", "leave it blank"},
      {refused, "train_loader.dataset.stream_name=a", "leave it blank"},
      {refused, "train_loader.dataset.stream_config={a: 1}", "leave it blank"},
      {listed, "train_loader.dataset.validate_hash=xxh64", "always checked"},
      {listed, "train_loader.dataset.allow_unsafe_types=true", "never read"},
      {changes, "train_loader.dataset.streams.a.local=c", "", streams},
      {changes, "train_loader.dataset.streams.a.remote=/net", "", streams},
      {changes, "train_loader.dataset.streams.a.split=val", "", streams},
      {changes, "train_loader.dataset.streams.a.proportion=2", "",
       streams + overrides{"train_loader.dataset.streams.a.proportion=1",
                           "train_loader.dataset.streams.b.proportion=1"}},
      {changes, "train_loader.dataset.streams.a.repeat=2", "", streams},
      {changes, "train_loader.dataset.streams.a.choose=2", "", streams},
      {changes, "train_loader.dataset.remote=https://h/c4"},
      {refused, "train_loader.dataset.remote=gs://bucket/c4", "http, https or s3"},
      {changes, "train_loader.dataset.cache_limit=5gb", "", remote},
      {refused, "train_loader.dataset.cache_limit=much", "a size such as 10gb", remote},
      {changes, "train_loader.dataset.predownload=64", "", remote},
      {refused, "train_loader.dataset.predownload=0", "above 0", remote},
      {changes, "train_loader.dataset.download_retry=2", "", remote},
      {refused, "train_loader.dataset.download_retry=-1", "from 0 to 1000", remote},
      {changes, "train_loader.dataset.download_timeout=5", "", remote},
      {refused, "train_loader.dataset.download_timeout=0", "from 1 to 86400", remote},
      {refused, "train_loader.dataset.keep_zip=true", "kept decompressed", remote},
      {listed, "train_loader.dataset.validate_hash=xxh64", "always checked", remote},
      {changes, "train_loader.dataset.streams.a.remote=https://h/a", "", streams},
      {changes, "train_loader.dataset.streams.a.download_retry=2", "",
       streams + overrides{"train_loader.dataset.streams.a.remote=https://h/a"}},
      {changes, "train_loader.dataset.download_retry=2", "",
       streams + overrides{"train_loader.dataset.streams.a.remote=https://h/a"}},
      {listed, "train_loader.dataset.streams.a.download_retry=2", "nothing is", streams},
      {listed, "train_loader.dataset.streams.a.download_timeout=5", "nothing is", streams},
      {listed, "train_loader.dataset.streams.a.keep_zip=true", "nothing is", streams},
      {listed, "train_loader.dataset.streams.a.validate_hash=xxh64", "always checked", streams},
      {changes, "train_loader.dataset.hf_name=e.jsonl", "", examples},
      {changes, "train_loader.dataset.hf_kwargs.data_dir=d", "", examples},
      {changes, "train_loader.dataset.hf_kwargs.data_files=d", "", examples},
      {changes, "train_loader.dataset.hf_kwargs.name=d", "", examples},
      {listed, "train_loader.dataset.hf_kwargs.trust_remote_code=true", "no code", examples},
      {changes, "train_loader.dataset.preprocessing_fn={prompt: a, response: b}", "", examples},
      {changes, "train_loader.dataset.preprocessing_fn.prompt=c", "",
       examples + overrides{"train_loader.dataset.preprocessing_fn={prompt: a, response: b}"}},
      {changes, "train_loader.dataset.preprocessing_fn.response=c", "",
       examples + overrides{"train_loader.dataset.preprocessing_fn={prompt: a, response: b}"}},
      {changes, "train_loader.dataset.target_prompts=all", "", examples},
      {changes, "train_loader.dataset.target_responses=all", "", examples},
      {changes, "train_loader.dataset.packing_ratio=2", "", examples},
      {changes, "train_loader.dataset.max_leftover_bins_to_keep=2", "",
       examples + overrides{"train_loader.dataset.packing_ratio=2"}},
      {refused, "train_loader.dataset.max_leftover_bins_to_keep=2", "without packing_ratio",
       examples},
      {changes, "train_loader.dataset.allow_pad_trimming=true", "", examples},
      {listed, "train_loader.dataset.allow_pad_trimming=true", "pad_to_longest decides",
       examples + overrides{"train_loader.dataset.pad_to_longest=true"}},
      {listed, "train_loader.dataset.allow_pad_trimming=true", "packed rows",
       examples + overrides{"train_loader.dataset.packing_ratio=2"}},
      {changes, "train_loader.dataset.pad_to_longest=true", "", examples},
      {refused, "train_loader.dataset.decoder_only_format=false", "use true", examples},
      {listed, "train_loader.dataset.safe_load=true", "nothing in them", examples},
  };
  for (std::string const knob : {"num_workers=2", "pin_memory=false", "prefetch_factor=5",
                                 "persistent_workers=false", "timeout=5"})
    out.push_back({listed, "train_loader." + knob, "without worker processes"});
  for (std::string const knob :
       {"num_canonical_nodes=2", "partition_algo=orig", "sampling_granularity=5", "batch_size=5"})
    out.push_back({listed, "train_loader.dataset." + knob, "the order is our own"});
  for (std::string const knob : {"download_retry=2", "download_timeout=5", "predownload=5",
                                 "cache_limit=5gb", "keep_zip=true"})
    out.push_back({listed, "train_loader.dataset." + knob, "nothing is downloaded"});
  for (std::string const finetuning_key :
       {"hf_name=a", "hf_kwargs={data_dir: a}", "preprocessing_fn=a", "decoder_only_format=true",
        "packing_ratio=2", "safe_load=true", "allow_pad_trimming=true", "pad_to_longest=true",
        "target_prompts=all", "target_responses=all", "max_leftover_bins_to_keep=2"})
    out.push_back({refused, "train_loader.dataset." + finetuning_key, "name: finetuning"});
  out.front() = {refused, "train_loader.name=other", "expected 'text' or 'finetuning'"};
  return out;
}

std::vector<row> rows_of_evaluation() {
  return {
      {changes, "eval_loader.dataset.local=./f", "", evaluates},
      {changes, "eval_interval=5ba", "", evaluates},
      {changes, "eval_interval=0", "", evaluates},
      {listed, "eval_interval=5ba", "no eval_loader"},
      {changes, "eval_first=true", "", evaluates},
      {listed, "eval_first=true", "no eval_loader"},
      {changes, "eval_subset_num_batches=5", "", evaluates},
      {listed, "eval_subset_num_batches=5", "no eval_loader"},
      {changes, "device_eval_batch_size=5", "", evaluates},
      {listed, "device_eval_batch_size=5", "no eval_loader"},
      {changes, "icl_seq_len=64", "", tasks},
      {listed, "icl_seq_len=64", "no icl_tasks"},
      {changes, "icl_subset_num_batches=5", "", tasks},
      {listed, "icl_subset_num_batches=5", "no icl_tasks"},
      {listed, "icl_max_seq_len=64", "is icl_seq_len"},
      {listed, "icl_tasks=[{label: a, dataset_uri: }]", "every dataset_uri is blank"},
      {changes, "icl_tasks_str=FOLDER/tasks.yaml"},
      {changes, "icl_tasks.0.label=b", "", tasks},
      {changes, "icl_tasks.0.dataset_uri=FOLDER/more.jsonl", "", tasks},
      {changes, "icl_tasks.0.icl_task_type=schema", "", tasks},
      {changes, "icl_tasks.0.num_fewshot=[1]", "", tasks},
      {refused, "icl_tasks.0.metric_names=[other]", "the only score", tasks},
      {changes, "icl_tasks.0.prompt_string=b", "", tasks},
      {changes, "icl_tasks.0.example_delimiter=b", "", tasks},
      {changes, "icl_tasks.0.continuation_delimiter=b", "", tasks},
      {changes, "icl_tasks.0.prelimiter=b", "", tasks},
      {changes, "icl_tasks.0.question_prelimiter=b", "", tasks},
      {changes, "icl_tasks.0.has_categories=true", "", tasks},
      {changes, "icl_tasks.0.fewshot_random_seed=5", "", tasks},
      {changes, "icl_tasks.0.batch_size=5", "", tasks},
      {changes, "icl_tasks.0.max_seq_len=50", "", tasks},
      {changes, "icl_tasks.0.cot_delimiter=b", "", tasks},
      {changes, "icl_tasks.0.do_normalization=false", "", tasks},
      {changes, "icl_tasks.0.early_stopping_criteria=[b]", "", tasks},
      {listed, "icl_tasks.0.cot_delimiter=b", "generation_task", choices},
      {listed, "icl_tasks.0.do_normalization=false", "generation_task", choices},
      {listed, "icl_tasks.0.early_stopping_criteria=[b]", "generation_task", choices},
      {listed, "icl_tasks.0.pad_tok_id=5", "nothing is padded", tasks},
      {refused, "icl_tasks.0.hf_loading_vars={a: 1}", "JSON lines", tasks},
      {refused, "icl_tasks.0.hf_parsing_map={a: 1}", "JSON lines", tasks},
      {refused, "icl_tasks.0.context_key=b", "leave it out", tasks},
      {refused, "icl_tasks.0.answer_key=b", "leave it out", tasks},
      {refused, "icl_tasks.0.choices_key=b", "leave it out", tasks},
      {refused, "icl_tasks.0.generation_kwargs={a: 1}", "leave it out", tasks},
      {refused, "icl_tasks.0.padding_size=5", "leave it out", tasks},
      {refused, "icl_tasks.0.strip_dataset=false", "leave it out", tasks},
      {refused, "icl_tasks.0.num_beams=5", "leave it out", tasks},
      {changes, "eval_gauntlet_str=FOLDER/gauntlet.yaml", "", tasks},
      {changes, "eval_gauntlet.weighting=SAMPLE_SZ", "", gauntlet},
      {changes, "eval_gauntlet.subtract_random_baseline=false", "",
       gauntlet + overrides{"eval_gauntlet.rescale_accuracy=false"}},
      {changes, "eval_gauntlet.rescale_accuracy=false", "", gauntlet},
      {changes, "eval_gauntlet.categories.0.name=d", "", gauntlet},
      {changes, "eval_gauntlet.categories.0.benchmarks.0.name=b", "", gauntlet},
      {changes, "eval_gauntlet.categories.0.benchmarks.0.num_fewshot=1", "", gauntlet},
      {changes, "eval_gauntlet.categories.0.benchmarks.0.random_baseline=0.5", "", gauntlet},
      {listed, "eval_gauntlet.categories.0.benchmarks.0.scorecard=b", "accuracies", gauntlet},
      {changes, "eval_gauntlet.averages={mean: [c]}", "", gauntlet},
      {changes, "eval_gauntlet.averages.mean=[]", "",
       gauntlet + overrides{"eval_gauntlet.averages={mean: [c]}"}},
  };
}

std::vector<row> rows_of_run() {
  std::vector<row> out{
      {changes, "run_name=other"},
      {changes, "max_seq_len=64"},
      {refused, "variables.seed=5", "nothing refers to it"},
      {refused, "dataset.local=x", "nothing refers to it"},
      {changes, "save_folder=./s"},
      {changes, "save_interval=5ba", "", saves},
      {listed, "save_interval=5ba", "no save_folder"},
      {changes, "save_num_checkpoints_to_keep=2", "", saves},
      {listed, "save_num_checkpoints_to_keep=2", "no save_folder"},
      {changes, "keep_every=1000", "", saves + overrides{"save_num_checkpoints_to_keep=2"}},
      {listed, "keep_every=1000", "all stay", saves},
      {listed, "keep_every=1000", "no save_folder"},
      {changes, "save_overwrite=true", "", saves},
      {listed, "save_overwrite=true", "no save_folder"},
      {changes, "save_weights_only=true", "", saves},
      {listed, "save_weights_only=true", "no save_folder"},
      {listed, "save_filename=a", "named by batch"},
      {listed, "save_latest_filename=a", "named by batch"},
      {listed, "only_composer_checkpoint=true", "one form"},
      {refused, "only_hf_checkpoint=true", "use false"},
      {refused, "save_ignore_keys=[a]", "leave it blank"},
      {refused, "load_ignore_keys=[a]", "leave it blank"},
      {refused, "load_strict_model_weights=false", "use true"},
      {changes, "local_save_folder=/x", "", saves},
      {refused, "local_save_folder=/x", "needs save_folder"},
      {changes, "local_save_interval=5ba", "", saves + overrides{"local_save_folder=/x"}},
      {changes, "load_path=./l"},
      {changes, "load_weights_only=true", "", {"load_path=./l"}},
      {listed, "load_weights_only=true", "no load_path"},
      {changes, "autoresume=true", "", saves},
      {changes, "metrics_file=m.jsonl"},
      {changes, "progress_bar=true"},
      {changes, "log_to_console=false"},
      {listed, "log_to_console=false", "progress bar", {"progress_bar=true"}},
      {changes, "console_log_interval=5ba"},
      {listed, "console_log_interval=5ba", "log_to_console is false", {"log_to_console=false"}},
      {changes, "dist_timeout=5"},
      {changes, "deadlines.setup=5"},
      {changes, "deadlines.first_step=5"},
      {changes, "deadlines.step=5"},
      {changes, "deadlines.save=5"},
      {changes, "deadlines.load=5"},
      {changes, "on_not_finite=skip"},
      {changes, "spike_check.on_spike=stop"},
      {changes, "spike_check.deviations=5", "", {"spike_check={on_spike: stop}"}},
      {changes, "spike_check.window=5", "", {"spike_check={on_spike: stop}"}},
      {changes, "corruption_check.interval=5ba"},
      {changes, "corruption_check.on_transient=stop", "", {"corruption_check.interval=5ba"}},
      {listed, "corruption_check.on_transient=stop", "interval is 0"},
      {changes, "reduction_order=canonical"},
      {changes, "reduce_dtype=bf16"},
      {changes, "zero_stage=2"},
      {changes, "fsdp_config.sharding_strategy=SHARD_GRAD_OP"},
      {listed,
       "fsdp_config.sharding_strategy=NO_SHARD",
       "zero_stage decides",
       {"fsdp_config={}", "zero_stage=2"}},
      {changes, "fsdp_config.data_parallel_shard_degree=2"},
      {changes, "fsdp_config.data_parallel_replicate_degree=2"},
      {listed,
       "fsdp_config.data_parallel_shard_degree=2",
       "parallelism.shard",
       {"fsdp_config={}", "parallelism.shard=4"}},
      {listed,
       "fsdp_config.data_parallel_replicate_degree=2",
       "parallelism.replicate",
       {"fsdp_config={}", "parallelism.replicate=4"}},
      {noted, "fsdp_config.mixed_precision=FULL", "fp32 master weights", {"fsdp_config={}"}},
      {noted, "fsdp_config.mixed_precision=PURE", "reduced in fp32", {"fsdp_config={}"}},
      {listed,
       "fsdp_config.mixed_precision=PURE",
       "all is fp32",
       {"fsdp_config={}", "precision=fp32"}},
      {changes, "fsdp_config.reshard_after_forward=false", "", {"fsdp_config={}"}},
      {listed, "fsdp_config.reshard_after_forward=false", "stage 3 alone", {"zero_stage=2"}},
      {changes, "fsdp_config.activation_checkpointing=true", "", {"fsdp_config={}"}},
      {refused, "fsdp_config.cpu_offload=true", "use false"},
      {refused, "fsdp_config.keep_low_precision_grads=true", "in fp32"},
      {refused, "fsdp_config.ignored_modules=[a]", "leave it blank"},
      {changes, "reduce_every_microbatch=true", "", {"zero_stage=2"}},
      {listed, "reduce_every_microbatch=true", "stage 2 on"},
      {changes, "parallelism.tensor=2"},
      {changes, "parallelism.sequence_parallel=true", "", {"parallelism.tensor=2"}},
      {listed, "parallelism.sequence_parallel=true", "belongs to tensor"},
      {changes, "parallelism.context=2"},
      {changes, "parallelism.context_method=ulysses", "", {"parallelism.context=2"}},
      {listed, "parallelism.context_method=ulysses", "belongs to context"},
      {changes, "parallelism.pipeline=2"},
      {changes, "parallelism.schedule=gpipe", "", {"parallelism.pipeline=2"}},
      {listed, "parallelism.schedule=gpipe", "belongs to pipeline"},
      {changes,
       "parallelism.stages_per_rank=4",
       "",
       {"parallelism.pipeline=2", "parallelism.schedule=interleaved"}},
      {refused, "parallelism.stages_per_rank=4", "leave it out"},
      {changes, "parallelism.blocks_by_stage=[1, 1]", "", {"parallelism.pipeline=2"}},
      {listed, "parallelism.blocks_by_stage=[2]", "belongs to pipeline"},
      {changes, "parallelism.overlap_weight_gradients=true"},
      {changes, "parallelism.shard=2"},
      {changes, "parallelism.replicate=2"},
      {changes, "tp_config.tensor_parallel_degree=2"},
      {listed,
       "tp_config.tensor_parallel_degree=2",
       "parallelism.tensor",
       {"parallelism.tensor=4"}},
      {refused, "tp_config.strategy=rows", "there is ffn"},
      {changes, "device=cpu"},
      {changes, "ranks=2"},
      {changes, "threads=2"},
      {changes, "device_memory=8GB"},
      {changes, "deterministic=true"},
      {changes, "cuda_graphs=true"},
      {changes, "offload_optimizer=true"},
      {changes, "bucket_bytes=8192"},
      {changes, "dry_run=true"},
      {changes, "preflight=true"},
      {changes, "print_plan=true"},
      {changes, "profile=true"},
      {refused, "profiler={a: 1}", "profile: true"},
      {listed, "code_paths=[a]", "no Python"},
      {listed, "compile_config={a: 1}", "compiled"},
      {listed, "spin_dataloaders=false", "by position"},
      {listed, "python_log_level=debug", "short form"},
      {listed, "log_config=false", "short form"},
      {listed, "metadata={a: 1}", "no logger"},
      {listed, "flatten_metadata=false", "no logger"},
      {listed, "max_split_size_mb=5", "memory is planned"},
      {listed, "expandable_segments=true", "memory is planned"},
      {listed, "cuda_load_lazy=true", "memory is planned"},
  };
  for (std::string const choice :
       {"activation_checkpointing_reentrant", "activation_cpu_offload", "auto_wrap",
        "backward_prefetch", "backward_prefetch_limit", "forward_prefetch",
        "forward_prefetch_limit", "limit_all_gathers", "sync_module_states", "use_orig_params",
        "process_group", "te_checkpoint_wrapper", "te_shard_fp8_weight", "verbose"})
    out.push_back({listed, "fsdp_config." + choice + "=1", "no such choice", {"fsdp_config={}"}});
  for (std::string const choice : {"state_dict_type", "sharded_ckpt_prefix_dir", "load_planner",
                                   "save_planner", "load_monolith_rank0_only"})
    out.push_back({listed, "fsdp_config." + choice + "=a", "one form", {"fsdp_config={}"}});
  return out;
}

std::vector<row> all_rows() {
  std::vector<row> out;
  for (auto const& some :
       {rows_of_model(), rows_of_attention(), rows_of_hub_and_adapters(), rows_of_optimisation(),
        rows_of_callbacks(), rows_of_data(), rows_of_evaluation(), rows_of_run()})
    out.insert(out.end(), some.begin(), some.end());
  return out;
}

/// The small files that some settings name.
struct test_files {
  test_files() {
    auto const write = [&](char const* name, std::string const& text) {
      std::filesystem::create_directories((folder / name).parent_path());
      parallel::replace_text_file(folder / name, text);
    };
    mpt::model_config model;
    model.d_model = 64;
    model.n_heads = 4;
    model.n_layers = 2;
    model.max_seq_len = 128;
    write("config.json", mpt::to_hf_json(mpt::hub_form(model), "bfloat16").dump());
    mpt::lora_config adapter;
    adapter.targets = {"Wqkv"};
    write("adapter/adapter_config.json", mpt::to_peft_json(adapter, "").dump());
    write("rows.jsonl", "{}\n");
    write("more.jsonl", "{}\n");
    write(
        "tasks.yaml",
        "icl_tasks: [{label: a, dataset_uri: rows.jsonl, icl_task_type: schema, num_fewshot: 0}]");
    write("gauntlet.yaml",
          "eval_gauntlet: {categories: [{name: c, benchmarks: [{name: a, num_fewshot: 0, "
          "random_baseline: 0.1}]}]}");
  }
  [[nodiscard]] std::string with_folder(std::string text) const {
    return mpt::fill_in(std::move(text), "FOLDER", folder.path().string());
  }
  test::temporary_folder folder;
};

/// The name with "*" in place of the numbers and names that users choose.
std::string const& canonical(std::string const& name) {
  static std::map<std::string, std::string> found;  // as every reading has the same names
  auto const [entry, is_new] = found.try_emplace(name);
  if (!is_new) return entry->second;
  static std::regex const number(R"(\.[0-9]+(?=\.|$))");
  static std::regex const chosen(
      R"((dataset\.streams|block_overrides\.overrides|averages|mirrors)\.[^.]+)");
  static std::regex const nested(R"((\.order\.\*)+)");
  auto text = std::regex_replace(std::regex_replace(name, number, ".*"), chosen, "$1.*");
  text = std::regex_replace(text, nested, ".order.*");
  for (std::string_view const loader : {"eval_loader.*.", "eval_loader."})
    if (text.starts_with(loader)) text = "train_loader." + text.substr(loader.size());
  constexpr std::string_view with_overrides = "model.config_overrides.";
  if (text.starts_with(with_overrides)) text = "model." + text.substr(with_overrides.size());
  return entry->second = std::move(text);
}

using reading = test::key_reading<mpt::train_config>;

reading read(test_files const& files, overrides changes) {
  std::string yaml = base;
  if (std::erase(changes, hub[0]) > 0) {
    auto const begin = yaml.find("model:"), end = yaml.find("tokenizer:");
    yaml.replace(
        begin, end - begin,
        files.with_folder("model: {name: hf_causal_lm, pretrained_model_name_or_path: FOLDER}\n"));
  }
  for (auto& text : changes) text = files.with_folder(text);
  reading out;
  try {
    out.config = mpt::read_train_config(mpt::make_document(yaml, "t.yaml", changes));
  } catch (parallel::error const& error) {
    out.problem = error.what();
  }
  return out;
}

TEST_CASE("known keys: every key changes the run, is refused, or is listed as without effect") {
  test_files const files;
  std::set<std::string> known;  // keys that the reader requested in any of these readings
  auto const add_known = [&](mpt::config_report const& report) {
    for (auto const& key : report.known) known.insert(canonical(key.name));
  };
  for (auto const& key : test::known_keys()) known.insert(canonical(key.name));
  std::set<std::string> tried;
  std::map<test::key_effect, int> counts;
  std::map<overrides, reading> baselines;  // by the context, which many rows share
  auto const rows = all_rows();
  for (row const& one : rows) {
    CAPTURE(one.setting);
    auto [before, is_new] = baselines.try_emplace(one.context);
    if (is_new) before->second = read(files, one.context);
    auto const& baseline = before->second;
    auto const changed = read(files, one.context + overrides{one.setting});
    if (is_new) add_known(baseline.config.output.report);
    add_known(changed.config.output.report);
    auto const fault = test::fault_of(one, baseline, changed, test::disabled_values::stored);
    CHECK_MESSAGE(fault.empty(), one.setting, " ", fault);
    tried.insert(canonical(one.key()));
    for (std::string const section : {"eval_loader", "model.config_overrides"})
      if (one.key().starts_with(section + '.')) tried.insert(section);
    ++counts[one.expected];
  }
  for (auto const& key : known)
    CHECK_MESSAGE(test::is_tried(tried, key), key, " has no row in this table");
  MESSAGE(known.size(), " keys known, ", tried.size(), " of them tried by themselves in ",
          rows.size(), " rows: ", counts[changes], " change the run, ", counts[refused],
          " are refused, ", counts[listed], " listed, ", counts[noted], " noted");
}

/// The keys that a source requests from its reader by a literal name.
std::set<std::string> requested_keys(std::string const& source) {
  static std::regex const call(
      R"((?:\.(?:get|required|optional|section|raw|one_of|refuse_unsupported|accept_without_effect|is_named|refuse_present|refuse_named)(?:<[^>(]*>)?\(|(?:read_name|read_path|positive|read_ranks|read_planned|read_strings|read_texts|read_patterns|read_epochs_or_time)\(\w+,)\s*"([a-z0-9_]+)\")");
  std::set<std::string> out;
  for (std::sregex_iterator match(source.begin(), source.end(), call), end; match != end; ++match)
    out.insert((*match)[1]);
  return out;
}

TEST_CASE("known keys: a file that is being written has the keys of its sections and all others") {
  test_files const files;
  auto const file = files.folder / "run.yaml";
  auto const effective_keys = [&](std::string const& text, overrides const& changed) {
    parallel::replace_text_file(file, text);
    std::set<std::string> names;
    for (auto const& key : mpt::known_keys(file, changed))
      if (key.role == mpt::key_role::effective) names.insert(key.name);
    return names;
  };
  auto const whole = effective_keys(base, lora);
  CHECK(whole.contains("max_duration"));
  CHECK(whole.contains("model.peft_config.lora_alpha"));
  CHECK(whole.contains("callbacks.early_stopper.patience"));
  CHECK(!effective_keys(base, {}).contains("model.peft_config.lora_alpha"));
  CHECK(!whole.contains("train_loader.dataset.hf_name"));
  for (std::string const text : {"max_seq_len: [", "max_seq_len: many", "", "a: 1"}) {
    CAPTURE(text);
    auto const names = effective_keys(text, {"not an override"});
    CHECK(names.contains("max_duration"));
    CHECK(names.contains("train_loader.dataset.shuffle_seed"));
    CHECK(names.contains("train_loader.dataset.hf_name"));
    CHECK(names.contains("train_loader.dataset.shuffle_algo"));  // of sets of text alone
  }
  auto const keys = mpt::known_keys(file);
  CHECK(std::ranges::is_sorted(keys, {}, &mpt::known_key::name));
  std::set<std::string> documented{"eval_loader"};  // whose keys are in the table as train_loader's
  for (row const& one : all_rows()) documented.insert(canonical(one.key()));
  for (auto const& key : keys) {
    auto const name = canonical(key.name);
    auto const is_member = [&](std::string const& other) { return other.starts_with(name); };
    CHECK_MESSAGE(std::ranges::any_of(documented, is_member), name);
  }
}

TEST_CASE("known keys: every key that a source reads has a row in the table") {
  std::set<std::string> key_endings;
  for (row const& one : all_rows()) {
    std::string const key = one.key();
    for (std::size_t offset = 0; offset != std::string::npos;) {
      auto const dot = key.find('.', offset);
      key_endings.insert(key.substr(offset, dot == std::string::npos ? dot : dot - offset));
      offset = dot == std::string::npos ? dot : dot + 1;
    }
  }
  std::size_t found = 0;
  auto const headers = test::checkout() / "include" / "mpt";
  std::vector<std::filesystem::path> sources;
  for (auto const& folder : {headers / "config", test::checkout() / "src" / "mpt" / "config"})
    for (auto const& file : std::filesystem::recursive_directory_iterator(folder))
      if (file.is_regular_file() && file.path().parent_path().filename() != "families")
        sources.push_back(file.path());
  for (auto const& source : sources) {
    auto const text = parallel::read_text_file(source, 1 << 20);
    for (auto const& key : requested_keys(text)) {
      CHECK_MESSAGE(key_endings.contains(key), source.filename().string(), " asks for ", key,
                    ", which has no row");
      ++found;
    }
  }
  CHECK(found > 150);
}

}  // namespace read_train_keys_test
