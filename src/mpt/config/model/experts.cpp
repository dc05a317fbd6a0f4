#include <mpt/config/model/experts.hpp>

#include <algorithm>
#include <utility>

#include <mpt/config/model.hpp>
#include <mpt/yaml/reader.hpp>
#include <parallel/ops/experts/expert_order.hpp>
#include <parallel/ops/experts/route.hpp>

namespace mpt {

experts_config const* experts_of_layer(model_config const& model, std::int64_t i) {
  bool const is_dense = !model.experts || std::ranges::find(model.experts->dense_layers, i) !=
                                              model.experts->dense_layers.end();
  return is_dense ? nullptr : &*model.experts;
}

std::int64_t expert_hidden(model_config const& model) {
  return model.experts->hidden.value_or(ffn_hidden(model));
}

bool has_expert_bias(model_config const& model) {
  return !model.no_bias && model.experts->kind != experts_kind::torch_dmoe;
}

std::int64_t ffn_matrix_count(model_config const& model) {
  return model.ffn_type == ffn_kind::mptglu ? 3 : 2;
}

std::int64_t expert_layer_count(model_config const& model) {
  return model.experts ? model.n_layers - std::ssize(model.experts->dense_layers) : 0;
}

std::int64_t expert_layer_parameters(model_config const& model) {
  auto const& experts = *model.experts;
  std::int64_t const d = model.d_model;
  return experts.count * (d + ffn_matrix_count(model) * d * expert_hidden(model)) +
         ffn_matrix_count(model) * d * experts.shared_hidden.value_or(0) +
         (experts.has_shared_gate ? d : 0) + (has_expert_bias(model) ? d : 0) +
         (experts.bias_rate > 0 ? experts.count : 0) + (knows_loads(experts) ? experts.count : 0);
}

std::int64_t unused_expert_parameters(model_config const& model) {
  if (!model.experts) return 0;
  return expert_layer_count(model) * (model.experts->count - model.experts->top_k) *
         ffn_matrix_count(model) * model.d_model * expert_hidden(model);
}

std::int64_t used_parameter_count(model_config const& model) {
  return parameter_count(model) - unused_expert_parameters(model);
}

void read_experts(config_reader& reader, experts_kind kind, model_config& model) {
  bool const is_mb = kind != experts_kind::torch_dmoe;
  auto& experts = model.experts.emplace();
  experts.kind = kind;
  auto const count = reader.optional<std::int64_t>("moe_num_experts");
  reader.check("moe_num_experts", count.has_value(), "experts need it: the number of a layer's");
  experts.count = *count;
  experts.top_k = reader.get("moe_top_k", experts.top_k);
  model.ffn_type = reader.one_of("mlp_type", "mlp", {"mlp", "glu"}) == "glu" ? ffn_kind::mptglu
                                                                             : ffn_kind::mptmlp;
  experts.hidden = reader.optional<std::int64_t>("moe_hidden_size");
  experts.weight_norm = reader.optional<double>("moe_normalize_expert_weights").value_or(0);
  experts.jitter = reader.optional<double>("moe_jitter_eps").value_or(0);
  experts.uniform = reader.get("uniform_expert_assignment", false);
  experts.loss_weight = reader.get("moe_loss_weight", is_mb ? 0.1 : 0.0);
  experts.z_loss_weight = reader.get("moe_zloss_weight", 0.0);
  experts.bias_rate = reader.get("moe_bias_update_rate", 0.0);
  auto const set =
      reader.one_of("moe_balance_set", "microbatch", {"microbatch", "sequence", "global_batch"});
  for (auto const& [name, value] : balance_set_names)
    if (set == name) experts.balance_set = value;
  experts.joins_layers = reader.get("moe_joined_loss", false);
  if (experts.joins_layers)
    reader.report_without_effect("moe_balance_set", "moe_joined_loss is over the microbatch");
  if (kind == experts_kind::mb_moe)
    experts.capacity_factor = reader.get("moe_capacity_factor", 1.0);
  else
    reader.accept_without_effect("moe_capacity_factor", "only mb_moe drops tokens");
  if (reader.get("shared_expert", false))
    experts.shared_hidden = reader.get("shared_expert_hidden_size", ffn_hidden(model));
  else
    reader.accept_without_effect("shared_expert_hidden_size", "shared_expert is off");
  experts.has_shared_gate = reader.get("moe_shared_gate", false);
  reader.check("moe_shared_gate", !experts.has_shared_gate || experts.shared_hidden,
               "belongs to shared_expert");
  if (config_node const* const layers = reader.raw("moe_dense_layers")) {
    reader.check("moe_dense_layers", layers->is_list(), "expected a list of blocks, found ",
                 describe(*layers));
    for (auto const& layer : layers->items) {
      auto const number = layer.is_scalar() ? parse_integer(layer.text) : std::nullopt;
      reader.check("moe_dense_layers", number.has_value(), "expected the number of a block, found ",
                   describe(layer));
      experts.dense_layers.push_back(*number);
    }
  }
  reader.refuse_unsupported("shared_expert_weighted_sum", "a shared expert is added as it is");
  reader.refuse_unsupported("lbl_process_group",
                            "a balancing loss has the means of moe_balance_set on every layout");
  for (char const* const key : {"moe_lbl_in_fp32", "moe_zloss_in_fp32"})
    reader.accept_without_effect(key, "losses of routers are always in float32");
  for (char const* const key : {"memory_optimized_mlp", "mlp_impl", "remat_act_fn", "fp16", "bf16",
                                "return_bias", "device_mesh"})
    reader.accept_without_effect(key, "it chooses an implementation of MegaBlocks");
  static_cast<void>(reader.optional<std::int64_t>("moe_world_size"));  // parallelism reads it
}

void check_experts(model_config const& model, std::string_view prefix) {
  auto const& experts = *model.experts;
  auto const name = [&](std::string_view key) {
    return parallel::concat(prefix, "ffn_config.", key);
  };
  parallel::require(experts.count >= 1 && experts.count <= parallel::ops::largest_expert_count,
                    name("moe_num_experts"), " must be from 1 to ",
                    parallel::ops::largest_expert_count, ", found ", experts.count);
  parallel::require(experts.top_k >= 1 && experts.top_k <= experts.count, name("moe_top_k"), " ",
                    experts.top_k, " is not from 1 to moe_num_experts ", experts.count);
  parallel::require(experts.top_k <= parallel::ops::largest_top_k, name("moe_top_k"), " ",
                    experts.top_k, " is above ", parallel::ops::largest_top_k,
                    ", the most experts that a token can use");
  for (auto const& [key, value] : {std::pair{"moe_loss_weight", experts.loss_weight},
                                   std::pair{"moe_zloss_weight", experts.z_loss_weight},
                                   std::pair{"moe_bias_update_rate", experts.bias_rate},
                                   std::pair{"moe_capacity_factor", experts.capacity_factor},
                                   std::pair{"moe_normalize_expert_weights", experts.weight_norm}})
    parallel::require(value >= 0, name(key), " cannot be negative, found ", value);
  parallel::require(experts.jitter >= 0 && experts.jitter < 1, name("moe_jitter_eps"),
                    " must be from 0 to below 1, found ", experts.jitter);
  for (auto const& [key, width] : {std::pair{"moe_hidden_size", experts.hidden},
                                   std::pair{"shared_expert_hidden_size", experts.shared_hidden}})
    parallel::require(!width || (*width >= 1 && *width <= largest_ffn), name(key),
                      " must be from 1 to ", largest_ffn, ", found ", width.value_or(0));
  parallel::require(
      !experts.shared_hidden || !has_expert_bias(model), name("shared_expert"),
      " would have biases in MegaBlocks, which are not supported; set no_bias to true");
  for (auto const layer : experts.dense_layers)
    parallel::require(layer >= 0 && layer < model.n_layers, name("moe_dense_layers"),
                      " names block ", layer, ", but there are blocks 0 to ", model.n_layers - 1);
}

}  // namespace mpt
