#include <mpt/train/setup/parameter_groups.hpp>

#include <algorithm>
#include <map>
#include <regex>
#include <string_view>

namespace mpt {
namespace {

[[nodiscard]] run_optimizer make_optimizer(std::string_view name, optimizer_settings const& s) {
  if (name == "decoupled_lionw")
    return parallel::decoupled_lion{
        .learning_rate = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .weight_decay = s.weight_decay};
  return parallel::decoupled_adamw{.learning_rate = s.lr,
                                   .beta1 = s.beta1,
                                   .beta2 = s.beta2,
                                   .eps = s.eps,
                                   .weight_decay = s.weight_decay};
}

/// The names in which the pattern is found; throws if there are none.
[[nodiscard]] std::vector<std::string> names_matching(name_pattern const& pattern,
                                                      std::vector<std::string> const& names) {
  std::vector<std::string> found;
  try {
    std::regex const expression(pattern.text);
    for (auto const& name : names)
      if (std::regex_search(foundry_name(name), expression)) found.push_back(name);
  } catch (std::regex_error const&) {
    parallel::fail(pattern.location, ": '", pattern.text,
                   "' is not a regular expression that is understood here");
  }
  require(!found.empty(), pattern.location, ": '", pattern.text,
          "' matches no parameter; their names are like ", foundry_name(names.front()));
  return found;
}

}  // namespace

std::vector<std::pair<std::string, double>> learning_rates(optimizer_config const& config,
                                                           double factor) {
  std::string const name =
      config.name == "decoupled_lionw" ? "DecoupledLionW/group" : "DecoupledAdamW/group";
  std::vector<std::pair<std::string, double>> out{{name + "0", config.lr * factor}};
  for (auto const& group : config.groups)
    out.emplace_back(name + std::to_string(out.size()), group.lr * factor);
  if (config.muon) out.emplace_back("Muon/group0", config.muon->learning_rate * factor);
  return out;
}

train::optimizer_groups<run_optimizer> group_parameters(optimizer_config const& config,
                                                        std::vector<std::string> const& names,
                                                        std::vector<std::string> const& matrices,
                                                        experts_config const* experts) {
  std::map<std::string, parallel::segment_key> keys;
  for (auto const& name : names) keys[name];
  std::vector<run_optimizer> optimizers{make_optimizer(config.name, config)};
  for (auto const& group : config.groups) {
    auto const number = static_cast<int>(optimizers.size());
    for (auto const& name : names_matching(group.match, names))
      if (keys[name].group == 0) keys[name].group = number;
    optimizers.push_back(make_optimizer(config.name, group));
  }
  if (config.muon) {
    optimizers.emplace_back(*config.muon);
    for (auto const& name : matrices) keys[name].group = 1;
  }
  auto const add_group = [&](std::string_view suffix, run_optimizer const& optimizer) {
    for (auto& [name, key] : keys)
      if (name.ends_with(suffix)) key.group = static_cast<int>(optimizers.size());
    optimizers.push_back(optimizer);
  };
  if (experts != nullptr && experts->bias_rate > 0)
    add_group(
        ".ffn.router.expert_bias",
        parallel::decoupled_lion{.learning_rate = experts->bias_rate, .beta1 = 0, .beta2 = 0});
  if (experts != nullptr && knows_loads(*experts))
    add_group(".ffn.router.expert_loads",
              parallel::gradient_assignment{1 / parallel::count_gradient_scale});
  for (auto const& pattern : config.disable_grad)
    for (auto const& name : names_matching(pattern, names)) keys[name].trainable = false;
  for (auto const& name : config.frozen_layers) {
    auto const found = std::ranges::find(names, name, foundry_name);
    require(found != names.end(), "callbacks.layer_freezing.layer_names: there is no parameter ",
            name, "; their names are like ", foundry_name(names.front()));
    keys[*found].trainable = false;
  }
  if (std::ranges::any_of(names, is_adapter))
    for (auto& [name, key] : keys) key.trainable = key.trainable && is_adapter(name);
  require(std::ranges::any_of(keys, [](auto const& key) { return key.second.trainable; }),
          "every parameter is frozen; leave one out of optimizer.disable_grad");
  return {std::move(optimizers), [keys](std::string const& name) { return keys.at(name); }};
}

}  // namespace mpt
