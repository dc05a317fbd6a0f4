// stepper_setup: the check before a stepper takes memory that all ranks construct the same one.
//
// Each rank describes its stepper as lines of text: its options, its optimizers, and the model's
// parameters, wherever their slices are. Ranks that differ would wait for each other in exchanges
// that some of them never reach, or train different models. Cost: one exchange of a signature;
// where lines differ, one more for each bisection of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/hash.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/optim/settings.hpp>
#include <parallel/train/parts.hpp>
#include <parallel/train/stepper_options.hpp>

namespace parallel::train {

/// Describes options, one line each.
template <class = void>
[[nodiscard]] std::vector<std::string> describe(stepper_options const& options) {
  std::vector<std::string> out;
  auto const add = [&](std::string_view name, auto const& value) {
    out.push_back(concat("stepper_options::", name, " ", value));
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
  return out;
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

namespace detail {

/// Hashes of the first 0, 1, 2, ... lines.
[[nodiscard]] inline std::vector<std::uint64_t> hashes_of_first(
    std::vector<std::string> const& lines) {
  std::vector<std::uint64_t> out{fnv1a({})};
  for (auto const& line : lines) out.push_back(out.back() * 0x100000001b3ULL ^ fnv1a(line));
  return out;
}

/// The ranks by what they have: "rank 0 has A; ranks 1, 2 have B".
[[nodiscard]] inline std::string parties_of(std::vector<std::string> const& by_rank,
                                            std::vector<int> const& names) {
  std::vector<std::pair<std::string, std::vector<int>>> parties;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto party =
        std::ranges::find(parties, by_rank[rank], &std::pair<std::string, std::vector<int>>::first);
    if (party == parties.end()) party = parties.insert(party, {by_rank[rank], {}});
    party->second.push_back(names[rank]);
  }
  std::string out;
  for (auto const& [text, ranks] : parties)
    out += concat(out.empty() ? "" : "; ", name_ranks(ranks),
                  ranks.size() == 1 ? " has " : " have ", text);
  return out;
}

}  // namespace detail

/// Throws one sentence on all ranks of `world`, with the first line that differs, unless their
/// lines are the same. Collective; blocks.
template <class Comm>
requires requires(Comm& world) { world.open_exchange(); }
void agree_on_setup(Comm& world, std::vector<std::string> lines) {
  if (world.size() == 1) return;
  lines.emplace_back("no more parameters");
  auto const hashes = detail::hashes_of_first(lines);
  auto const signature_of_first = [&](std::size_t first) {
    signature out{.kind = operation_kind::agreement, .count = lines.size()};
    out.file_hash = hashes[std::min(first, lines.size())];
    return out;
  };
  auto const all_equal = [](std::vector<signature> const& signatures) {
    return std::ranges::all_of(signatures, [&](signature const& other) {
      return other.file_hash == signatures.front().file_hash;
    });
  };
  auto const all_signatures = world.open_exchange()(signature_of_first(lines.size()));
  if (all_equal(all_signatures)) return;
  std::size_t equal_lines = 0,
              differing_lines = 0;  // how many first lines are the same, and how many are not
  for (auto const& each_signature : all_signatures)
    differing_lines = std::max(differing_lines, static_cast<std::size_t>(each_signature.count));
  while (differing_lines - equal_lines > 1) {
    std::size_t const half = equal_lines + (differing_lines - equal_lines) / 2;
    (all_equal(world.open_exchange()(signature_of_first(half))) ? equal_lines : differing_lines) =
        half;
  }
  auto own_signature = signature_of_first(equal_lines);
  std::string_view const own_line = equal_lines < lines.size() ? lines[equal_lines] : lines.back();
  own_line.copy(own_signature.file.data(), own_signature.file.size() - 1);
  std::vector<std::string> texts;
  std::vector<int> names;
  for (auto const& shown : world.open_exchange()(own_signature)) {
    names.push_back(world.world_rank(static_cast<int>(texts.size())));
    texts.emplace_back(shown.file_name());
  }
  auto const message = concat("ranks make different steppers: ", detail::parties_of(texts, names),
                              "; give all ranks the same options, optimizers and model");
  world.abort(message);
  fail(message);
}

/// Whether any parameter of the model is trained.
template <class Model, class KeyOf>
[[nodiscard]] bool trains_any(Model& model, KeyOf const& key_of) {
  bool any = false;
  model.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    visit_parameters_of(layer, [&](auto const& p) { any = any || key_of(p.name).trainable; });
  });
  return any;
}

/// Throws unless optimizers have settings with which they train, and states of different names.
template <class Optimizers>
void require_optimizers(Optimizers const& optimizers) {
  for (auto const& optimizer : optimizers) {
    require_settings(optimizer);
    std::set<std::string_view> names;
    for (std::string_view const state : optimizer.state_names())
      require(names.insert(state).second, "the optimizer names two states \"", state,
              "\"; give each its own name, by which checkpoints hold it");
  }
}

/// Returns `options` when all ranks of `world` construct the same stepper. Collective; blocks.
template <class Model, class Comm, class Optimizers, class KeyOf>
[[nodiscard]] stepper_options checked_setup(Model& model, Comm& world, Optimizers const& optimizers,
                                            KeyOf const& key_of, stepper_options options) {
  if constexpr (requires { world.open_exchange(); })
    agree_on_setup(world, describe_stepper(model, optimizers, key_of, options));
  require_threshold(options.clip);
  require_optimizers(optimizers);
  return options;
}

}  // namespace parallel::train
