// optimizer_config: LLM Foundry's `optimizer`.
//
// decoupled_adamw and decoupled_lionw first do p *= 1 - (lr/initial_lr) wd, then their step with
// lr. The decay is not multiplied by lr, so weight_decay 1e-5 here is about 0.1 of an ordinary
// AdamW at lr 1e-4. It applies to every parameter, biases and norms too, unless param_groups say
// otherwise.
//
// muon, which LLM Foundry does not have, is torch.optim.Muon with its names and defaults (its decay
// is multiplied by lr) for the matrices of blocks; its key `adamw` has decoupled_adamw's settings
// for all that is no such matrix.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpt/config/reader.hpp>
#include <parallel/optim/muon.hpp>

namespace mpt {

/// What an optimizer is told; `eps` is decoupled_adamw's alone.
struct optimizer_settings {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 1e-5;

  friend bool operator==(optimizer_settings const&, optimizer_settings const&) = default;
};

/// A regular expression that picks parameters by name, and where it was written.
struct name_pattern {
  std::string text;
  std::string location;  ///< "file:line:column: key"

  friend bool operator==(name_pattern const&, name_pattern const&) = default;
};

/// One of `param_groups`: parameters whose name the pattern is found in, and their own settings.
struct parameter_group : optimizer_settings {
  name_pattern match;

  friend bool operator==(parameter_group const&, parameter_group const&) = default;
};

/// `optimizer`: decoupled_adamw, decoupled_lionw or muon. Its own settings are those of group 0;
/// with muon, which has its own, they are decoupled_adamw's, for what is no matrix of a block.
struct optimizer_config : optimizer_settings {
  std::string name = "decoupled_adamw";
  std::optional<parallel::muon> muon;      ///< of group 1, the matrices of blocks
  std::vector<name_pattern> disable_grad;  ///< parameters that stay as they are
  std::vector<parameter_group> groups;     ///< of a parameter the first that matches it counts

  friend bool operator==(optimizer_config const&, optimizer_config const&) = default;
};

/// Reads and checks `optimizer`. Whether patterns match anything is seen when the model is known.
[[nodiscard]] optimizer_config read_optimizer(config_reader reader);

}  // namespace mpt
