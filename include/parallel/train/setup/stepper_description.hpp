// stepper_description: describes a stepper in lines of text that must be the same on all ranks: its
// options, its optimizers, and the model's parameters, wherever their slices are.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/optim/settings.hpp>
#include <parallel/train/parts.hpp>
#include <parallel/train/stepper_options.hpp>

namespace parallel::train {

/// Describes options, one line each.
template <class = void>
[[nodiscard]] std::vector<std::string> describe(stepper_options const& options) {
  std::vector<std::string> lines;
  auto const add = [&](std::string_view name, auto const& value) {
    lines.push_back(concat("stepper_options::", name, " ", value));
  };
  add("level", static_cast<int>(options.level));
  add("bucket_bytes", options.bucket_bytes);
  add("reshard_after_forward", options.reshard_after_forward);
  add("reduce_every_microbatch", options.reduce_every_microbatch);
  add("gather_before_use", options.gather_before_use);
  add("one_queue", options.one_queue.value_or(false));
  add("clip",
      concat(to_string(options.clip.kind),
             options.clip.kind == clipping_kind::none ? "" : concat(" ", options.clip.threshold)));
  add("keep_finite", options.keep_finite);
  add("order", options.order == zero::reduction_order::by_rank ? "by_rank" : "canonical_tree");
  add("reduce_dtype", options.reduce_dtype == zero::reduce_dtype::full ? "full" : "bf16");
  add("optimizer_memory",
      options.optimizer_memory == zero::optimizer_memory::device ? "device" : "host");
  add("pipeline.schedule", options.pipeline.schedule);
  add("pipeline.stages_per_rank", options.pipeline.stages_per_rank);
  std::string blocks;
  for (int const count : options.pipeline.blocks)
    blocks += concat(blocks.empty() ? "" : " ", count);
  add("pipeline.blocks", blocks.empty() ? std::string("divided evenly") : blocks);
  add("pipeline.overlap_weight_gradients", options.pipeline.overlap_weight_gradients);
  return lines;
}

/// Adds one line for each optimizer, and one for each setting that it shows.
template <class Optimizers>
void describe_optimizers(Optimizers const& optimizers, std::vector<std::string>& out) {
  for (std::size_t group = 0; group < optimizers.size(); ++group) {
    std::string line = concat("optimizer ", group, " with states");
    for (std::string_view const state : optimizers[group].state_names()) line += concat(" ", state);
    out.push_back(std::move(line));
    for (auto const& setting : settings_of(optimizers[group]))
      out.push_back(concat("optimizer ", group, " with ", setting));
  }
}

/// Adds a line for the model and one for each of its tensors, as visit_units shows it. Ranks along
/// the tensor axis may have other slices of a tensor, or several.
template <class Model, class KeyOf>
void describe_parameters(Model& model, KeyOf const& key_of, std::vector<std::string>& out) {
  using parameter_type = parameter_base<typename Model::element>;
  out.push_back(concat("a model of ", model.num_blocks(), " blocks of width ", model.width()));
  std::set<std::string> seen;
  model.visit_units([&](std::string const& unit, auto& layer, std::vector<part> const& parts,
                        std::vector<parameter_type*> const& uses) {
    std::string using_parts;
    for (part const p : parts) using_parts += concat(" ", p);
    visit_parameters_of(layer, [&](parameter_type const& p) {
      if (!seen.insert(p.name).second) return;
      auto const key = key_of(p.name);
      std::string shape;
      for (index const extent : p.tensor_extents())
        shape += concat(shape.empty() ? "" : " x ", extent);
      out.push_back(concat(
          "parameter \"", p.name, "\" of ", shape, " in unit \"", unit, "\", used by part",
          using_parts, uses.empty() ? "" : concat(" (", uses.size(), " tied)"),
          key.trainable ? concat(", trained by optimizer ", key.group) : std::string(", frozen")));
    });
  });
}

/// All lines of a stepper; `key_of` as in optimizer_groups.
template <class Model, class Optimizers, class KeyOf>
[[nodiscard]] std::vector<std::string> describe_stepper(Model& model, Optimizers const& optimizers,
                                                        KeyOf const& key_of,
                                                        stepper_options const& options) {
  auto out = describe(options);
  describe_optimizers(optimizers, out);
  describe_parameters(model, key_of, out);
  return out;
}

}  // namespace parallel::train
