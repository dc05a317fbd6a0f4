#include <mpt/train/checkpoint/resumed_settings.hpp>

namespace mpt {
namespace {

/// Adds the values of an optimizer, or of one of its parameter groups, under `prefix`.
void add_optimizer_settings(nlohmann::json& settings, std::string const& prefix,
                            optimizer_settings const& values) {
  settings[prefix + "lr"] = values.lr;
  settings[prefix + "betas"] = {values.beta1, values.beta2};
  settings[prefix + "eps"] = values.eps;
  settings[prefix + "weight_decay"] = values.weight_decay;
}

}  // namespace

nlohmann::json changeable_settings(model_config const& model, optimizer_config const& optimizer,
                                   execution_config const& execution) {
  nlohmann::json settings = nlohmann::json::object();
  add_optimizer_settings(settings, "optimizer.", optimizer);
  for (auto const& group : optimizer.groups)
    add_optimizer_settings(settings, "optimizer.param_groups[" + group.match.text + "].", group);
  if (auto const& muon = optimizer.muon) {
    settings["optimizer.muon.lr"] = muon->learning_rate;
    settings["optimizer.muon.weight_decay"] = muon->weight_decay;
    settings["optimizer.muon.momentum"] = muon->momentum;
  }
  auto const& schedule = optimizer.scheduler;
  settings["scheduler.name"] = to_string(schedule.kind);
  settings["scheduler.t_warmup"] = to_string(schedule.t_warmup);
  settings["scheduler.t_max"] = to_string(schedule.t_max);
  settings["scheduler.alpha_f"] = schedule.alpha_f;
  settings["algorithms.gradient_clipping.clipping_type"] =
      parallel::train::to_string(optimizer.clip.kind);
  settings["algorithms.gradient_clipping.clipping_threshold"] = optimizer.clip.threshold;
  settings["model.resid_pdrop"] = model.resid_pdrop;
  settings["model.emb_pdrop"] = model.emb_pdrop;
  settings["model.attn_config.attn_pdrop"] = model.attn.attn_pdrop;
  settings["precision"] = execution.precision == precision_kind::fp32 ? "fp32" : "amp_bf16";
  return settings;
}

std::optional<std::string> describe_changed_settings(nlohmann::json const& saved,
                                                     nlohmann::json const& current) {
  if (!saved.is_object()) return std::nullopt;
  std::string changes;
  for (auto const& [name, value] : current.items()) {
    auto const saved_value = saved.find(name);
    if (saved_value == saved.end() || *saved_value == value) continue;
    changes += (changes.empty() ? "" : ", ") + name + " (was " + saved_value->dump() + ", now " +
               value.dump() + ")";
  }
  if (changes.empty()) return std::nullopt;
  return "note: this run goes on with settings that its checkpoint was not trained with: " +
         changes;
}

}  // namespace mpt
