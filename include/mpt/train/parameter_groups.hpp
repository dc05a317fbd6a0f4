// Which parameters are trained and how, from the configuration's patterns.
//
// Patterns are searched for, as by Python's re.search, in LLM Foundry's names: the name in our
// files with the prefix "model.". The grammar is ECMAScript's, which has the same characters,
// classes, groups and repetitions. A pattern that matches nothing is an error: it is always a
// misspelling.
#pragma once

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/optim/muon.hpp>
#include <parallel/train/optimizer_groups.hpp>
#include <parallel/train/parts.hpp>

namespace mpt {

/// The optimizer of a run, chosen by its configuration.
using run_optimizer =
    parallel::any_optimizer<parallel::decoupled_adamw, parallel::decoupled_lion, parallel::muon>;

/// A parameter's name in LLM Foundry, which patterns and metrics use.
[[nodiscard]] inline std::string foundry_name(std::string const& name) { return "model." + name; }

namespace detail {

[[nodiscard]] inline run_optimizer make_optimizer(std::string_view name,
                                                  optimizer_settings const& s) {
  if (name == "decoupled_lionw")
    return parallel::decoupled_lion{
        .learning_rate = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .weight_decay = s.weight_decay};
  return parallel::decoupled_adamw{.learning_rate = s.lr,
                                   .beta1 = s.beta1,
                                   .beta2 = s.beta2,
                                   .eps = s.eps,
                                   .weight_decay = s.weight_decay};
}

/// The names in which the pattern is found; throws where there are none.
[[nodiscard]] inline std::vector<std::string> names_matching(
    name_pattern const& pattern, std::vector<std::string> const& names) {
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

}  // namespace detail

/// The learning rates of all groups, named as LLM Foundry's callback names them.
[[nodiscard]] inline std::vector<std::pair<std::string, double>> learning_rates(
    optimizer_config const& config, double factor) {
  std::string const name =
      config.name == "decoupled_lionw" ? "DecoupledLionW/group" : "DecoupledAdamW/group";
  std::vector<std::pair<std::string, double>> out{{name + "0", config.lr * factor}};
  for (auto const& group : config.groups)
    out.emplace_back(name + std::to_string(out.size()), group.lr * factor);
  if (config.muon) out.emplace_back("Muon/group0", config.muon->learning_rate * factor);
  return out;
}

/// Assigns parameters to groups: the first of `param_groups` that matches. A parameter is frozen by
/// `disable_grad`, by its name in LLM Foundry (`layer_freezing`), or, in a model with adapters,
/// because it is no adapter. `matrices`: the names that muon trains, if the configuration uses it.
[[nodiscard]] inline train::optimizer_groups<run_optimizer> group_parameters(
    optimizer_config const& config, std::vector<std::string> const& frozen,
    std::vector<std::string> const& names, std::vector<std::string> const& matrices = {}) {
  std::map<std::string, parallel::segment_key> keys;
  for (auto const& name : names) keys[name];
  std::vector<run_optimizer> optimizers{detail::make_optimizer(config.name, config)};
  for (auto const& group : config.groups) {
    auto const number = static_cast<int>(optimizers.size());
    for (auto const& name : detail::names_matching(group.match, names))
      if (keys[name].group == 0) keys[name].group = number;
    optimizers.push_back(detail::make_optimizer(config.name, group));
  }
  if (config.muon) {
    optimizers.emplace_back(*config.muon);
    for (auto const& name : matrices) keys[name].group = 1;
  }
  for (auto const& pattern : config.disable_grad)
    for (auto const& name : detail::names_matching(pattern, names)) keys[name].trainable = false;
  for (auto const& name : frozen) {
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

/// The groups of a model's parameters.
template <class Model>
[[nodiscard]] train::optimizer_groups<run_optimizer> groups_of(train_config const& config,
                                                               Model& net) {
  std::vector<std::string> names, matrices;
  net.visit_units([&](std::string const&, auto& layer, auto const& parts, auto const&) {
    bool const is_block = parts.front() != train::embed &&
                          parts.front() != static_cast<train::part>(net.num_blocks());
    layer.visit_parameters([&](auto const& parameter) {
      names.push_back(parameter.name);
      if (is_block && parameter.extents.size() == 2) matrices.push_back(parameter.name);
    });
  });
  return group_parameters(config.optimizer, config.callbacks.frozen_layers, names, matrices);
}

}  // namespace mpt
