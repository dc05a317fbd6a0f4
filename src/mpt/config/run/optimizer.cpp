#include <mpt/config/run/optimizer.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace mpt {
namespace {

/// Reads the settings of an optimizer or a group; absent ones are `defaults`.
[[nodiscard]] optimizer_settings read_settings(config_reader& reader, std::string const& optimizer,
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
    reader.refuse_unsupported("amsgrad", "use false", {"false"});
  } else {
    reader.accept_without_effect("eps", "decoupled_lionw has none");
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

/// Reads a regular expression or a list of them.
[[nodiscard]] std::vector<name_pattern> read_patterns(config_reader& reader, std::string_view key) {
  std::vector<name_pattern> patterns;
  config_node const* const node = reader.raw(key);
  if (node == nullptr) return patterns;
  auto const add = [&](config_node const& item) {
    reader.check(key, item.is_scalar() && !item.text.empty() && item.text.size() <= 200,
                 "expected a regular expression of 1 to 200 characters or a list of such, found ",
                 describe(item));
    patterns.push_back({item.text, parallel::concat(item.location, ": ", reader.full_name(key))});
  };
  if (!node->is_list()) add(*node);
  for (config_node const& item : node->items) add(item);
  return patterns;
}

[[nodiscard]] std::vector<parameter_group> read_groups(config_reader& reader,
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
    item.check("param_str_match", item.has_key("param_str_match"),
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

/// Reads the settings of torch.optim.Muon by its names.
[[nodiscard]] parallel::muon read_muon(config_reader& reader) {
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
    reader.check(key, !reader.has_key(key),
                 "is not known to muon; give adamw: {lr, betas, eps, weight_decay} for what is no "
                 "matrix of a block");
  return muon;
}

}  // namespace

optimizer_config read_optimizer(config_reader reader) {
  optimizer_config optimizer;
  optimizer.name = reader.required<std::string>("name");
  if (optimizer.name == "clip_lion" || optimizer.name == "adalr_lion" || optimizer.name == "no_op")
    reader.fail("name", "'", optimizer.name,
                "' is not yet supported; use decoupled_adamw, decoupled_lionw or muon");
  static_cast<void>(
      reader.one_of("name", optimizer.name, {"decoupled_adamw", "decoupled_lionw", "muon"}));
  optimizer_settings defaults;
  if (optimizer.name == "muon") {
    optimizer.muon = read_muon(reader);
    auto adamw_reader = reader.section("adamw");
    static_cast<optimizer_settings&>(optimizer) =
        read_settings(adamw_reader, "decoupled_adamw", defaults);
    adamw_reader.finish();
    optimizer.disable_grad = read_patterns(reader, "disable_grad");
    reader.finish();
    return optimizer;
  }
  if (optimizer.name == "decoupled_lionw")
    defaults = {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0};
  static_cast<optimizer_settings&>(optimizer) = read_settings(reader, optimizer.name, defaults);
  optimizer.disable_grad = read_patterns(reader, "disable_grad");
  optimizer.groups = read_groups(reader, optimizer.name, optimizer);
  reader.finish();
  return optimizer;
}

}  // namespace mpt
