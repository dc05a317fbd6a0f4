// optimizer_config: LLM Foundry's `optimizer` and `algorithms.gradient_clipping`.
//
// decoupled_adamw: p *= 1 - (lr/initial_lr) wd; then Adam's step with lr. The decay is not
// multiplied by lr, so weight_decay 1e-5 here is about 0.1 of an ordinary AdamW at lr 1e-4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <mpt/config/reader.hpp>

namespace mpt {

/// `optimizer`; the only name so far is decoupled_adamw.
struct optimizer_config {
  std::string name = "decoupled_adamw";
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 1e-5;

  friend bool operator==(optimizer_config const&, optimizer_config const&) = default;
};

/// Reads and checks `optimizer`.
[[nodiscard]] inline optimizer_config read_optimizer(config_reader reader) {
  optimizer_config optimizer;
  optimizer.name = reader.required<std::string>("name");
  if (optimizer.name == "decoupled_lionw" || optimizer.name == "clip_lion" ||
      optimizer.name == "adalr_lion" || optimizer.name == "no_op")
    reader.fail("name", "'", optimizer.name, "' is not yet supported; use decoupled_adamw");
  reader.check("name", optimizer.name == "decoupled_adamw", "expected 'decoupled_adamw', found '",
               printable(optimizer.name), "'");
  optimizer.lr = reader.get("lr", optimizer.lr);
  reader.check("lr", optimizer.lr > 0, "must be above 0, found ", optimizer.lr);
  if (config_node const* const betas = reader.raw("betas")) {
    reader.check("betas", betas->is_list() && betas->items.size() == 2,
                 "expected a list of two numbers, found ", describe(*betas));
    double* const fields[] = {&optimizer.beta1, &optimizer.beta2};
    for (std::size_t i = 0; i < 2; ++i) {
      config_node const& item = betas->items[i];
      double const beta = item.is_scalar() ? parse_number(item.text).value_or(-1) : -1;
      reader.check("betas", beta >= 0 && beta < 1,
                   "each must be a number from 0 to below 1, found ", describe(item));
      *fields[i] = beta;
    }
  }
  optimizer.eps = reader.get("eps", optimizer.eps);
  reader.check("eps", optimizer.eps >= 0, "must not be negative, found ", optimizer.eps);
  optimizer.weight_decay = reader.get("weight_decay", optimizer.weight_decay);
  reader.check("weight_decay", optimizer.weight_decay >= 0 && optimizer.weight_decay < 1,
               "must be from 0 to below 1, found ", optimizer.weight_decay);
  if (optimizer.weight_decay >= 1e-3)
    reader.report().notes.push_back(parallel::concat(
        "optimizer.weight_decay ", optimizer.weight_decay,
        " is not multiplied by lr: every step takes that share of each weight (divide an ordinary "
        "AdamW's value by lr)"));
  reader.not_yet("amsgrad", "use false", {"false"});
  reader.not_yet("disable_grad", "every parameter is trained");
  reader.not_yet("param_groups", "every parameter has the same lr and weight_decay");
  reader.finish();
  return optimizer;
}

/// Reads `algorithms`: the norm the gradient is clipped to, or nothing.
[[nodiscard]] inline std::optional<double> read_gradient_clipping(config_reader reader) {
  std::optional<double> threshold;
  bool const clips = reader.has("gradient_clipping");
  auto clipping = reader.section("gradient_clipping");
  clipping.not_yet("clipping_type", "use norm", {"norm"});
  threshold = clipping.optional<double>("clipping_threshold");
  clipping.check("clipping_threshold", !clips || threshold, "missing; it is required");
  clipping.check("clipping_threshold", !threshold || *threshold > 0, "must be above 0, found ",
                 threshold.value_or(0));
  clipping.finish();
  for (std::string_view const key : {"alibi", "gated_linear_units", "low_precision_layernorm"})
    reader.not_yet(key, "algorithms knows gradient_clipping only; see model's own keys");
  reader.finish();
  return threshold;
}

}  // namespace mpt
