// optimizer_config: LLM Foundry's `optimizer`, with `scheduler` and `algorithms.gradient_clipping`.
//
// decoupled_adamw and decoupled_lionw first do p *= 1 - (lr/initial_lr) wd, then their step with
// lr. The decay is not multiplied by lr, so weight_decay 1e-5 here is about 0.1 of an ordinary
// AdamW at lr 1e-4. It applies to every parameter, biases and norms too, unless param_groups say
// otherwise.
//
// muon, which LLM Foundry does not have, is torch.optim.Muon with its names and defaults (its decay
// is multiplied by lr) for the weight matrices of blocks; its key `adamw` holds the settings of
// decoupled_adamw for all other parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpt/config/run/scheduler.hpp>
#include <mpt/yaml/reader.hpp>
#include <parallel/optim/muon.hpp>
#include <parallel/train/clipping.hpp>

namespace mpt {

/// Settings of an optimizer; only decoupled_adamw uses `eps`.
struct optimizer_settings {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 1e-5;

  friend bool operator==(optimizer_settings const&, optimizer_settings const&) = default;
};

/// A regular expression that selects parameters by name, and the location where it was written.
struct name_pattern {
  std::string text;
  std::string location;  ///< "file:line:column: key"

  friend bool operator==(name_pattern const&, name_pattern const&) = default;
};

/// One of `param_groups`: the parameters whose name matches the pattern, and their settings.
struct parameter_group : optimizer_settings {
  name_pattern match;

  friend bool operator==(parameter_group const&, parameter_group const&) = default;
};

/// `optimizer`: decoupled_adamw, decoupled_lionw or muon. The inherited settings are those of group
/// 0; with muon they are decoupled_adamw's, for the parameters that are not matrices of a block.
struct optimizer_config : optimizer_settings {
  std::string name = "decoupled_adamw";
  std::optional<parallel::muon> muon;      ///< of group 1, the matrices of blocks
  std::vector<name_pattern> disable_grad;  ///< parameters that are not trained
  std::vector<std::string> frozen_layers;  ///< callbacks.layer_freezing: names of parameters
  std::vector<parameter_group> groups;  ///< a parameter belongs to the first group that matches it

  parallel::train::clipping clip;  ///< algorithms.gradient_clipping
  scheduler_config scheduler;

  friend bool operator==(optimizer_config const&, optimizer_config const&) = default;
};

/// Reads and checks `optimizer`. Whether a pattern matches any parameter is checked with the model.
[[nodiscard]] optimizer_config read_optimizer(config_reader reader);

}  // namespace mpt
