// run_layout: the mesh of a run, or one message that says all that it cannot have: the axis, the
// rule, and the nearest choice that keeps it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <parallel/core/error.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/pipeline/assign.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/canonical_order.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/zero/level.hpp>

namespace mpt {

namespace axis = parallel::axis;
using parallel::training_layout;

namespace detail {

/// The degree nearest to `wanted` that fits, the lower of two; 1 always does.
template <class Fits>
[[nodiscard]] int nearest_degree(int wanted, Fits const& fits) {
  for (int away = 1; away < wanted; ++away) {
    if (fits(wanted - away)) return wanted - away;
    if (fits(wanted + away)) return wanted + away;
  }
  return 1;
}

/// "a, b and c".
[[nodiscard]] inline std::string all_of(std::vector<std::string> const& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

/// Lengths of the sequences that are trained and evaluated on.
[[nodiscard]] inline std::vector<std::int64_t> sequence_lengths(train_config const& config) {
  std::vector<std::int64_t> out{config.train_loader.max_seq_len};
  for (auto const& loader : config.eval_loaders)
    if (std::ranges::find(out, loader.max_seq_len) == out.end()) out.push_back(loader.max_seq_len);
  return out;
}

/// The rules that a tensor degree breaks.
[[nodiscard]] inline std::vector<std::string> broken_by_tensor(train_config const& config,
                                                               int degree) {
  std::vector<std::string> out;
  if (degree == 1) return out;
  auto const& m = config.model;
  auto const enough = [&](std::string_view what, std::int64_t count) {
    if (count < degree)
      out.push_back(parallel::concat(what, ' ', count, " must be at least as many"));
  };
  enough("n_heads", m.n_heads);
  if (auto const keys = kv_heads(m); keys < degree && degree % keys != 0)
    out.push_back(parallel::concat("kv_n_heads ", keys, " must be at least as many, or divide it"));
  enough("the hidden width of the feed-forward layer", ffn_hidden(m));
  enough("vocab_size", m.vocab_size);
  if (config.parallelism.sequence_parallel)
    for (auto const length : sequence_lengths(config))
      if (auto const here = length / config.parallelism.context; here % degree != 0)
        out.push_back(parallel::concat("with sequence_parallel, the sequence length ",
                                       config.parallelism.context == 1 ? "" : "of a context rank, ",
                                       here, " must divide by it"));
  return out;
}

[[nodiscard]] inline std::vector<std::string> broken_by_context(train_config const& config,
                                                                int degree) {
  std::vector<std::string> out;
  if (degree == 1) return out;
  auto const& p = config.parallelism;
  for (auto const length : sequence_lengths(config))
    if (length % (2 * std::int64_t{degree}) != 0)
      out.push_back(
          parallel::concat("sequences of ", length, " must divide into 2 x ", degree, " chunks"));
  bool const exchanges = p.context_method == parallel::context_parallel::method::ulysses;
  if (exchanges && broken_by_tensor(config, p.tensor).empty()) {
    parallel::ops::head_layout const all{.heads = config.model.n_heads,
                                         .kv_heads = kv_heads(config.model)};
    using parallel::tensor::axis_position;
    auto const most = axis_position{0, p.tensor}.part_of(all);
    auto const fewest = axis_position{p.tensor - 1, p.tensor}.part_of(all);
    auto const whole = [&](std::string_view what, std::int64_t heads, std::int64_t least) {
      if (heads != least)
        out.push_back(parallel::concat("with ulysses, each of ", p.tensor,
                                       " tensor ranks must have as many of ", what));
      else if (heads % degree != 0)
        out.push_back(parallel::concat("with ulysses, ", what, ' ', heads,
                                       p.tensor == 1 ? "" : " of a tensor rank",
                                       " must divide by it"));
    };
    whole("n_heads", most.heads, fewest.heads);
    if (all.kv_heads != all.heads) whole("kv_n_heads", most.kv_heads, fewest.kv_heads);
  }
  return out;
}

/// What a degree breaks, and what to use instead.
template <class Broken>
void check_degree_of(std::vector<std::string>& problems, train_config const& config,
                     std::string_view name, int degree, Broken const& broken) {
  auto const rules = broken(config, degree);
  if (rules.empty()) return;
  int const instead =
      nearest_degree(degree, [&](int other) { return broken(config, other).empty(); });
  problems.push_back(
      parallel::concat(name, ' ', degree, ": ", all_of(rules), "; set ", name, " to ", instead));
}

/// The blocks at which a pipeline stage may begin: none from there on attends to the keys of an
/// earlier one.
[[nodiscard]] inline std::vector<std::string> possible_stage_begins(model_config const& model) {
  std::vector<std::string> out;
  std::int64_t earliest = model.n_layers;  // of the keys that blocks from i on attend to
  for (std::int64_t i = model.n_layers; i-- > 0;) {
    earliest = std::min(earliest, key_source(model, i));
    if (earliest == i) out.insert(out.begin(), std::to_string(i));
  }
  return out;
}

/// Refuses stages that part a block from the one whose keys it attends to.
inline void check_shared_keys(std::vector<std::string>& problems, train_config const& config,
                              std::vector<parallel::pipeline::stage_blocks> const& stages) {
  auto const& p = config.parallelism;
  auto const possible = possible_stage_begins(config.model);
  std::vector<std::string> begins;
  for (auto const& stage : stages) begins.push_back(std::to_string(stage.begin));
  for (auto const& stage : stages)
    for (int i = stage.begin; i < stage.end; ++i)
      if (auto const source = key_source(config.model, i); source < stage.begin) {
        problems.push_back(parallel::concat(
            "pipeline ", p.pipeline, ": block ", i, " attends to the keys of block ", source,
            " (reuse_kv_layer_idx), so that one stage must hold both, but stages begin at blocks ",
            all_of(begins), ", and may only at ", all_of(possible), "; ",
            possible.size() >= stages.size()
                ? std::string("give blocks_by_stage")
                : parallel::concat(
                      "set pipeline to ",
                      std::max(1, static_cast<int>(possible.size()) / p.stages_per_rank))));
        return;
      }
}

inline void check_pipeline(std::vector<std::string>& problems, train_config const& config) {
  auto const& p = config.parallelism;
  if (p.pipeline == 1) return;
  auto const blocks = static_cast<int>(config.model.n_layers);
  if (blocks < p.stages()) {
    problems.push_back(
        parallel::concat("pipeline ", p.pipeline, ": ", p.schedule, " has ", p.stages(),
                         " stages, which need as many blocks, but n_layers is ", blocks,
                         "; set pipeline to ", std::max(1, blocks / p.stages_per_rank)));
    return;
  }
  try {
    auto const any = parallel::pipeline::make_schedule(p.schedule, p.pipeline, 2 * p.pipeline,
                                                       p.stages_per_rank);
    check_shared_keys(problems, config,
                      parallel::pipeline::assign_blocks(any, blocks, p.blocks_by_stage));
  } catch (parallel::error const& problem) {
    problems.push_back(parallel::concat("pipeline ", p.pipeline, ": blocks_by_stage: ",
                                        problem.what(), "; leave it out to divide them evenly"));
  }
}

/// The degrees of shard and replicate for `ranks`, which the model's ranks divide.
[[nodiscard]] inline training_layout with_data_ranks(std::vector<std::string>& problems,
                                                     training_layout const& of_model,
                                                     train_config const& config, int ranks) {
  auto const& p = config.parallelism;
  int const data = ranks / of_model.ranks();
  if (config.zero_stage == 0 && p.shard.value_or(1) > 1) {
    problems.push_back(parallel::concat("shard ", *p.shard,
                                        ": without ZeRO nothing is sharded; set zero_stage to 1, 2 "
                                        "or 3, or use replicate"));
    return of_model.with_degree<axis::replicate>(data);
  }
  int shard = 1;
  if (config.zero_stage > 0)
    shard = p.shard ? *p.shard : std::max(1, data / p.replicate.value_or(1));
  int const replicate = p.replicate ? *p.replicate : std::max(1, data / shard);
  if (std::int64_t{shard} * replicate != data)
    problems.push_back(parallel::concat(
        "shard ", shard, " x replicate ", replicate, ": must be the ", data, " of ", ranks,
        " ranks that ", of_model.text(), " leaves; set ",
        data % shard == 0
            ? parallel::concat("replicate to ", data / shard)
            : parallel::concat("shard to ",
                               nearest_degree(shard, [&](int other) { return data % other == 0; })),
        p.shard && p.replicate ? "" : ", or leave it out"));
  return of_model.with_degree<axis::shard>(shard).with_degree<axis::replicate>(replicate);
}

/// What the canonical order of reductions cannot take.
inline void check_canonical_order(std::vector<std::string>& problems, train_config const& config,
                                  training_layout const& layout) {
  if (!is_canonical(config)) return;
  for (auto& problem : parallel::train::broken_by_canonical_order(layout, config.clip.kind))
    problems.push_back(std::move(problem));
  int const shard = layout.degree<axis::shard>();
  int const replicate = layout.degree<axis::replicate>();
  if (replicate > 1 && (shard & (shard - 1)) != 0) {
    int fits = 1;
    while (2 * fits < shard && shard * replicate % (2 * fits) == 0) fits *= 2;
    problems.push_back(parallel::concat(
        "shard ", shard, " x replicate ", replicate,
        ": the canonical order of reductions needs a power of two of shards beside replicas; set "
        "shard to ",
        fits, ", or replicate to 1"));
  }
  if (!config.device_train_microbatch_size)
    problems.emplace_back(
        "device_train_microbatch_size auto: the canonical order of reductions sums microbatches "
        "whose size must not depend on the memory that is there; give it a number");
}

}  // namespace detail

[[nodiscard]] inline parallel::zero::optimizer_memory optimizer_memory_of(
    train_config const& config) {
  return config.offload_optimizer ? parallel::zero::optimizer_memory::host
                                  : parallel::zero::optimizer_memory::device;
}

[[nodiscard]] inline parallel::zero::level level_of(train_config const& config) {
  return static_cast<parallel::zero::level>(config.zero_stage);
}

/// How a run's steps are made, where what is left to its plan is least memory.
[[nodiscard]] inline parallel::train::stepper_options stepper_options_of(
    train_config const& config) {
  return {.level = level_of(config),
          .bucket_bytes = static_cast<std::size_t>(config.bucket_bytes),
          .reshard_after_forward = config.reshard_after_forward.value_or(true),
          .reduce_every_microbatch = config.reduce_every_microbatch.value_or(true),
          .gather_before_use = true,
          .clip = config.clip,
          .keep_finite =
              config.on_not_finite != bad_batch_policy::stop || config.spike_check.has_value(),
          .order = config.reduction_order,
          .reduce_dtype = config.reduce_dtype,
          .optimizer_memory = optimizer_memory_of(config),
          .pipeline = config.parallelism.pipeline_options()};
}

/// Ranks that read other sequences than each other.
[[nodiscard]] inline int data_ranks(training_layout const& layout) {
  return layout.size<axis::replicate, axis::shard>();
}

/// What HYBRID_SHARD without a degree means: shards are the data ranks that share a machine with
/// `ranks_here` of the `ranks`. Nothing changes where a degree is given.
inline void shard_within(parallelism_config& p, int ranks, int ranks_here) {
  if (!p.shard_within_node || p.shard || p.replicate) return;
  int const data = std::max(1, ranks / p.ranks_of_model());
  int shard = std::clamp(ranks_here / (p.context * p.tensor), 1, data);
  while (data % shard != 0) --shard;
  p.shard = shard;
}

/// The layout of a run on `ranks` ranks. Those that the degrees of tensor, context and pipeline
/// leave are data ranks: shards from zero_stage 1 on (unless `shard` or `replicate` says how many),
/// else replicas. Throws one error of all that cannot be; nothing has been started then.
[[nodiscard]] inline training_layout run_layout(train_config const& config, int ranks) {
  auto const& p = config.parallelism;
  auto layout = p.layout_of_model();
  int const of_model = layout.ranks();
  std::vector<std::string> problems;
  detail::check_degree_of(problems, config, "tensor", p.tensor, detail::broken_by_tensor);
  detail::check_degree_of(problems, config, "context", p.context, detail::broken_by_context);
  detail::check_pipeline(problems, config);
  if (ranks % of_model != 0) {
    int const below = ranks / of_model * of_model;
    problems.push_back(parallel::concat("ranks ", ranks, ": ", layout.text(),
                                        " needs a multiple of ", of_model, "; start ",
                                        below > 0 ? parallel::concat(below, " or ") : std::string(),
                                        std::int64_t{below} + of_model));
  } else {
    layout = detail::with_data_ranks(problems, layout, config, ranks);
    try {
      static_cast<void>(split_batch(config, ranks / of_model));
    } catch (parallel::error const& problem) {
      problems.emplace_back(problem.what());
    }
  }
  detail::check_canonical_order(problems, config, layout);
  for (auto const& [reads, key] :
       {std::pair{config.callbacks.generate.has_value(), "callbacks.generate_callback"},
        std::pair{!config.icl.tasks.empty(), "icl_tasks"}})
    if (reads && (p.context > 1 || (p.sequence_parallel && p.tensor > 1)))
      problems.push_back(parallel::concat(
          key,
          ": a text is read token by token, which cannot be divided; leave it out, or set "
          "context to 1 and sequence_parallel to false"));
  if (problems.size() == 1) parallel::fail("parallelism: ", problems.front());
  std::string all;
  for (auto const& problem : problems) all += "\n  " + problem;
  parallel::require(problems.empty(), "parallelism: this layout cannot be:", all);
  return layout;
}

}  // namespace mpt
