#include <mpt/config/model/expert_form.hpp>

#include <algorithm>

#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

void read_expert_count(family_form& form, expert_keys const& keys, std::int64_t& count) {
  auto const stored = form.value(keys.count);
  auto const other = keys.other_count.empty() ? nlohmann::json() : form.value(keys.other_count);
  form.require(stored.is_null() || other.is_null() || stored == other, keys.count, "is ",
               printable(stored.dump()), ", but ", keys.other_count, " is ",
               printable(other.dump()), ", and versions of transformers differ in which they take");
  form.count(stored.is_null() && !other.is_null() ? keys.other_count : keys.count, count);
}

}  // namespace

void describe_experts(family_form& form, model_config& model, expert_keys const& keys) {
  if (form.writes() && !model.experts) return;  // the model that is read again has experts
  auto& experts = form.writes() ? *model.experts : model.experts.emplace();
  if (form.writes())
    form.count(keys.count, experts.count);
  else
    read_expert_count(form, keys, experts.count);
  if (!keys.hidden.empty()) {
    std::int64_t hidden = expert_hidden(model);
    form.count(keys.hidden, hidden);
    experts.hidden = hidden;
  }
  form.field("num_experts_per_tok", experts.top_k, keys.default_top_k);
  bool has_norm = experts.weight_norm == 1;
  if (!keys.always_norms) form.field("norm_topk_prob", has_norm, false);
  bool has_loss = experts.loss_weight > 0;
  form.field("output_router_logits", has_loss, false);
  if (form.writes() && !has_loss) return;
  double weight = experts.loss_weight;
  form.field("router_aux_loss_coef", weight, keys.default_loss_weight);
  form.require(weight >= 0, "router_aux_loss_coef", "a weight cannot be negative, found ", weight);
  if (form.writes()) return;
  experts.weight_norm = has_norm || keys.always_norms ? 1 : 0;
  experts.loss_weight = has_loss ? weight : 0;
  experts.joins_layers = experts.loss_weight > 0;
}

void describe_dense_layers(family_form& form, model_config& model) {
  constexpr std::string_view key = "mlp_only_layers";
  std::int64_t step = 1;
  form.field("decoder_sparse_step", step, 1);
  if (form.writes()) {
    if (model.experts) form.put(key, model.experts->dense_layers);
    return;
  }
  auto const listed = form.value(key);
  form.require(listed.is_null() ||
                   (listed.is_array() &&
                    std::ranges::all_of(
                        listed, [](auto const& number) { return number.is_number_integer(); })),
               key, "expected a list of layers' numbers, found ", printable(listed.dump()));
  auto& dense = model.experts->dense_layers;
  for (std::int64_t i = 0; i < model.n_layers; ++i)
    if ((i + 1) % step != 0 || std::ranges::find(listed, nlohmann::json(i)) != listed.end())
      dense.push_back(i);
  form.require(std::ssize(dense) < model.n_layers, key,
               "no layer has experts; such a model is read as one of a family without them");
}

void require_default_head_dim(family_form& form, model_config const& model) {
  form.require(form.writes() || !model.head_dim, "head_dim",
               "is not hidden_size / num_attention_heads, which some versions of transformers take "
               "instead");
}

}  // namespace mpt
