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

#include <cstdint>
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
  std::string place;  ///< "file:line:column: key"

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

namespace detail {

/// The settings written here, over `defaults`.
[[nodiscard]] inline optimizer_settings read_settings(config_reader& reader,
                                                      std::string const& optimizer,
                                                      optimizer_settings const& defaults) {
  optimizer_settings settings = defaults;
  settings.lr = reader.get("lr", settings.lr);
  reader.check("lr", settings.lr > 0, "must be above 0, found ", settings.lr);
  if (config_node const* const betas = reader.raw("betas")) {
    reader.check("betas", betas->is_list() && betas->items.size() == 2,
                 "expected a list of two numbers, found ", describe(*betas));
    double* const fields[] = {&settings.beta1, &settings.beta2};
    for (std::size_t i = 0; i < 2; ++i) {
      config_node const& item = betas->items[i];
      double const beta = item.is_scalar() ? parse_number(item.text).value_or(-1) : -1;
      reader.check("betas", beta >= 0 && beta < 1,
                   "each must be a number from 0 to below 1, found ", describe(item));
      *fields[i] = beta;
    }
  }
  if (optimizer == "decoupled_adamw") {
    settings.eps = reader.get("eps", settings.eps);
    reader.check("eps", settings.eps >= 0, "must not be negative, found ", settings.eps);
    reader.not_yet("amsgrad", "use false", {"false"});
  } else {
    reader.without_effect("eps", "decoupled_lionw has none");
  }
  settings.weight_decay = reader.get("weight_decay", settings.weight_decay);
  reader.check("weight_decay", settings.weight_decay >= 0 && settings.weight_decay < 1,
               "must be from 0 to below 1, found ", settings.weight_decay);
  if (settings.weight_decay >= 1e-3 && settings.weight_decay != defaults.weight_decay)
    reader.report().notes.push_back(
        parallel::concat(reader.full_name("weight_decay"), " ", settings.weight_decay,
                         " is not multiplied by lr: every step takes that share of each weight "
                         "(divide an ordinary AdamW's value by lr)"));
  return settings;
}

/// One text or a list of them.
[[nodiscard]] inline std::vector<name_pattern> read_patterns(config_reader& reader,
                                                             std::string_view key) {
  std::vector<name_pattern> patterns;
  config_node const* const node = reader.raw(key);
  if (node == nullptr) return patterns;
  auto const add = [&](config_node const& item) {
    reader.check(key, item.is_scalar() && !item.text.empty() && item.text.size() <= 200,
                 "expected a regular expression of 1 to 200 characters or a list of such, found ",
                 describe(item));
    patterns.push_back({item.text, parallel::concat(item.place, ": ", reader.full_name(key))});
  };
  if (!node->is_list()) add(*node);
  for (config_node const& item : node->items) add(item);
  return patterns;
}

[[nodiscard]] inline std::vector<parameter_group> read_groups(config_reader& reader,
                                                              std::string const& optimizer,
                                                              optimizer_settings const& defaults) {
  std::vector<parameter_group> groups;
  config_node const* const node = reader.raw("param_groups");
  if (node == nullptr) return groups;
  reader.check("param_groups", node->is_list(), "expected a list of mappings, found ",
               describe(*node));
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    config_reader item(node->items[i], parallel::concat(reader.full_name("param_groups"), ".", i),
                       reader.report());
    parameter_group group;
    item.check("param_str_match", item.has("param_str_match"),
               "missing; it is required: a regular expression for names of parameters");
    auto patterns = read_patterns(item, "param_str_match");
    item.check("param_str_match", patterns.size() == 1, "expected one regular expression");
    group.match = std::move(patterns.front());
    static_cast<optimizer_settings&>(group) = read_settings(item, optimizer, defaults);
    item.finish();
    groups.push_back(std::move(group));
  }
  return groups;
}

/// torch.optim.Muon's settings, by its names.
[[nodiscard]] inline parallel::muon read_muon(config_reader& reader) {
  parallel::muon muon;
  muon.learning_rate = reader.get("lr", muon.learning_rate);
  reader.check("lr", muon.learning_rate > 0, "must be above 0, found ", muon.learning_rate);
  muon.weight_decay = reader.get("weight_decay", muon.weight_decay);
  reader.check("weight_decay", muon.weight_decay >= 0, "must not be negative, found ",
               muon.weight_decay);
  muon.momentum = reader.get("momentum", muon.momentum);
  reader.check("momentum", muon.momentum >= 0 && muon.momentum < 1,
               "must be from 0 to below 1, found ", muon.momentum);
  muon.nesterov = reader.get("nesterov", muon.nesterov);
  muon.eps = reader.get("eps", muon.eps);
  reader.check("eps", muon.eps > 0, "must be above 0, found ", muon.eps);
  auto const steps = reader.get("ns_steps", std::int64_t{muon.steps});
  reader.check("ns_steps", steps > 0 && steps < 100, "must be from 1 to 99, found ", steps);
  muon.steps = static_cast<int>(steps);
  using enum parallel::muon_adjustment;
  auto const adjust = reader.one_of("adjust_lr_fn", "original",
                                    {"original", "match_rms_adamw", "spectral_unclamped"});
  muon.adjustment = adjust == "original"          ? original
                    : adjust == "match_rms_adamw" ? match_rms_adamw
                                                  : spectral_unclamped;
  for (std::string_view const key : {"param_groups", "betas"})
    reader.check(key, !reader.has(key),
                 "is not known to muon; give adamw: {lr, betas, eps, weight_decay} for what is no "
                 "matrix of a block");
  return muon;
}

}  // namespace detail

/// Reads and checks `optimizer`. Whether patterns match anything is seen when the model is known.
[[nodiscard]] inline optimizer_config read_optimizer(config_reader reader) {
  optimizer_config optimizer;
  optimizer.name = reader.required<std::string>("name");
  if (optimizer.name == "clip_lion" || optimizer.name == "adalr_lion" || optimizer.name == "no_op")
    reader.fail("name", "'", optimizer.name,
                "' is not yet supported; use decoupled_adamw, decoupled_lionw or muon");
  static_cast<void>(
      reader.one_of("name", optimizer.name, {"decoupled_adamw", "decoupled_lionw", "muon"}));
  optimizer_settings defaults;
  if (optimizer.name == "muon") {
    optimizer.muon = detail::read_muon(reader);
    auto others = reader.section("adamw");
    static_cast<optimizer_settings&>(optimizer) =
        detail::read_settings(others, "decoupled_adamw", defaults);
    others.finish();
    optimizer.disable_grad = detail::read_patterns(reader, "disable_grad");
    reader.finish();
    return optimizer;
  }
  if (optimizer.name == "decoupled_lionw")
    defaults = {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0};
  static_cast<optimizer_settings&>(optimizer) =
      detail::read_settings(reader, optimizer.name, defaults);
  optimizer.disable_grad = detail::read_patterns(reader, "disable_grad");
  optimizer.groups = detail::read_groups(reader, optimizer.name, optimizer);
  reader.finish();
  return optimizer;
}

}  // namespace mpt
