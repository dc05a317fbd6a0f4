// Which parameters are trained and how, from the configuration's patterns.
//
// Patterns are searched for, as by Python's re.search, in LLM Foundry's names: the name in our
// files with the prefix "model.". The grammar is ECMAScript's, which has the same characters,
// classes, groups and repetitions. A pattern that matches nothing is an error: it is always a
// misspelling.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/optim/gradient_assignment.hpp>
#include <parallel/optim/muon.hpp>
#include <parallel/train/optimizer_groups.hpp>
#include <parallel/train/parts.hpp>

namespace mpt {

/// The optimizer of a run, chosen by its configuration.
using run_optimizer = parallel::any_optimizer<parallel::decoupled_adamw, parallel::decoupled_lion,
                                              parallel::muon, parallel::gradient_assignment>;

/// A parameter's name in LLM Foundry, which patterns and metrics use.
[[nodiscard]] inline std::string foundry_name(std::string const& name) { return "model." + name; }

/// The learning rates of all groups, named as LLM Foundry's callback names them.
[[nodiscard]] std::vector<std::pair<std::string, double>> learning_rates(
    optimizer_config const& config, double factor);

/// Assigns parameters to groups: the first of `param_groups` that matches. A parameter is frozen by
/// `disable_grad`, by its name in LLM Foundry (`layer_freezing`), or, in a model with adapters,
/// because it is no adapter. `matrices`: the names that muon trains, if the configuration uses it;
/// those of experts are none, since each is many matrices. `experts`: those of the model, if any,
/// whose routers' biases move by the sign of their gradients, and whose loads are assigned.
[[nodiscard]] train::optimizer_groups<run_optimizer> group_parameters(
    optimizer_config const& config, std::vector<std::string> const& names,
    std::vector<std::string> const& matrices = {}, experts_config const* experts = nullptr);

/// The groups of a model's parameters.
template <class Model>
[[nodiscard]] train::optimizer_groups<run_optimizer> groups_of(optimizer_config const& optimizer,
                                                               Model& net) {
  std::vector<std::string> names, matrices;
  net.visit_units([&](std::string const&, auto& layer, auto const& parts, auto const&) {
    bool const is_block = parts.front() != train::embed &&
                          parts.front() != static_cast<train::part>(net.num_blocks());
    layer.visit_parameters([&](auto const& parameter) {
      names.push_back(parameter.name);
      bool const holds_experts = parameter.name.find(".ffn.experts.") != std::string::npos ||
                                 parameter.name.find(".ffn.shared_expert.") != std::string::npos;
      if (is_block && !holds_experts && parameter.extents.size() == 2)
        matrices.push_back(parameter.name);
    });
  });
  auto const& experts = net.config().experts;
  return group_parameters(optimizer, names, matrices, experts ? &*experts : nullptr);
}

}  // namespace mpt
