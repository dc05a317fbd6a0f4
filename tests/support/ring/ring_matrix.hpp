// Generated layouts of the exact ring model: mixes of all axes, ZeRO stages, schedules, sizes of
// microbatches and kinds of models. The result of a single rank is the reference of every layout.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/ring/ring_run.hpp"

namespace test {

/// A description of everything in which layouts may differ.
inline std::string text(layout const& config) {
  auto const list = [](std::vector<std::string> const& parts) {
    std::string out;
    for (auto const& part : parts) out += part + ' ';
    return out;
  };
  auto const& m = config.model;
  auto out = parallel::concat(config.shape().text(), "; ZeRO ", static_cast<int>(config.level),
                              config.reshard ? "" : ", parameters not resharded",
                              config.reduce_every_microbatch ? "" : ", gradients reduced once",
                              config.gather_before_use ? ", gathered before use" : "",
                              config.one_queue ? ", in one queue" : "", ", buckets of ",
                              config.bucket_bytes, "; ", config.schedule.schedule, ' ',
                              config.schedule.stages_per_rank, " of ", m.blocks, " blocks; ",
                              config.sizes.batch, " sequences of ", config.sizes.length,
                              " in microbatches of ", config.microbatch);
  out += parallel::concat(
      "; ", m.attention.heads, '/', m.attention.key_heads, " heads",
      m.attention.method == context_parallel::method::ring ? ", ring" : ", ulysses", ", ", m.hidden,
      " hidden units, ", config.sizes.vocabulary, " tokens in the vocabulary",
      config.divide_rows ? ", rows divided" : "", m.tied ? ", tied" : "", m.gated ? ", gated" : "",
      config.measure ? ", measured" : "");
  if (m.block_kind == block_parameters::shared_layer) out += ", one layer for all blocks";
  if (m.block_kind == block_parameters::tied) out += ", tied blocks";
  if (m.recompute > 0) out += parallel::concat(", ", m.recompute, " blocks recomputed");
  return out + "; frozen " + list(config.frozen) + "; second group " + list(config.second_group);
}

/// The first difference of two outcomes; empty when they are equal.
inline std::string difference(outcome const& computed, outcome const& expected) {
  if (!computed.complete()) return "some elements are on no rank";
  if (!computed.ranks_agree) return "ranks disagree";
  if (!computed.frozen_is_lean) return "frozen segments have gradients or states";
  if (computed.losses != expected.losses) return "losses";
  if (computed.tokens != expected.tokens) return "numbers of tokens";
  for (auto const& [kind, computed_values, reference_values] :
       {std::tuple("gradient of ", &computed.gradients, &expected.gradients),
        std::tuple("parameter ", &computed.parameters, &expected.parameters)}) {
    if (computed_values->size() != reference_values->size())
      return parallel::concat("number of tensors: ", kind);
    for (auto const& [name, values] : *computed_values)
      if (!reference_values->contains(name) || reference_values->at(name) != values)
        return kind + name;
  }
  if (computed.squared_norms != expected.squared_norms) return "squared norms";
  return computed.tensors == expected.tensors ? "" : "measured tensors";
}

/// The layout of one rank with one microbatch, without ZeRO or recomputation. Every layout of the
/// same model, data and optimizers must give its result.
[[nodiscard]] inline layout single_rank_config(layout const& config) {
  layout single;
  single.microbatch = config.sizes.batch;
  single.frozen = config.frozen;
  single.second_group = config.second_group;
  single.num_steps = config.num_steps;
  single.model = config.model;
  single.model.recompute = 0;
  single.measure = config.measure;
  single.sizes = config.sizes;
  return single;
}

/// The outcomes of single ranks, each computed once.
class ring_references {
 public:
  outcome const& outcome_of(layout const& config) {
    auto const single = single_rank_config(config);
    auto const key = parallel::concat(text(single), ' ', single.num_steps);
    if (!outcomes_.contains(key)) outcomes_.emplace(key, run(single));
    return outcomes_.at(key);
  }
  [[nodiscard]] std::size_t size() const { return outcomes_.size(); }

 private:
  std::map<std::string, outcome> outcomes_;
};

/// Makes random choices that depend only on the seed.
class chooser {
 public:
  explicit chooser(std::uint64_t seed) : random_(seed, parallel::stream_id("layouts")) {}
  index up_to(index count) {
    return static_cast<index>(random_.bits(next_++) % static_cast<std::uint64_t>(count));
  }
  bool one_in(index count) { return up_to(count) == 0; }
  template <class T>
  T pick(std::vector<T> const& choices) {
    return choices[static_cast<std::size_t>(up_to(std::ssize(choices)))];
  }

 private:
  parallel::philox random_;
  std::uint64_t next_ = 0;
};

/// Chooses a number of heads that the tensor degree need not divide, and a number of key heads:
/// several for each rank, or one for several ranks.
inline void choose_uneven_heads(layout& config, chooser& choose) {
  auto& attention = config.model.attention;
  index const ranks = config.tensor;
  if (choose.one_in(2)) {
    attention.heads = ranks + choose.up_to(ranks + 4);
    attention.key_heads = choose.pick<index>({0, attention.heads});
    return;
  }
  std::vector<index> key_head_counts{ranks, ranks + 1, 2 * ranks - 1};
  for (index k = 1; k < ranks; ++k)
    if (ranks % k == 0) key_head_counts.push_back(k);
  attention.key_heads = choose.pick(key_head_counts);
  index const ranks_per_key_head = std::max<index>(1, ranks / attention.key_heads);
  attention.heads = attention.key_heads * (ranks_per_key_head + choose.up_to(3));
}

/// A layout with the degrees of `shape`; `seed` chooses everything else. The tensor degree often
/// does not divide the numbers of heads and hidden units and the vocabulary. `refusal` tells which
/// layouts are invalid.
inline layout random_layout(parallel::training_layout const& shape, std::uint64_t seed) {
  namespace axis = parallel::axis;
  chooser choose(seed);
  layout config;
  config.num_steps = 2;
  config.pipeline = shape.degree<axis::pipeline>();
  config.tensor = shape.degree<axis::tensor>();
  config.context = shape.degree<axis::context>();
  int const shards = shape.degree<axis::shard>();
  int const replicas = shape.degree<axis::replicate>();
  config.level = choose.pick<zero::level>({all_levels[1], all_levels[2], all_levels[3]});
  if (shards == 1 && choose.one_in(2)) {
    config.level = zero::level::none;
    config.ranks = replicas;
  } else {
    config.ranks = shards;
    config.replicas = replicas;
  }
  config.reshard = config.level != zero::level::parameters || !choose.one_in(3);
  config.bucket_bytes = choose.pick<std::size_t>({1, 2000, std::size_t{1} << 30});
  config.schedule.schedule =
      choose.pick<std::string>({"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"});
  bool const is_v = config.schedule.schedule == "zb-v" || config.schedule.schedule == "dual-pipe-v";
  if (config.schedule.schedule == "interleaved")
    config.schedule.stages_per_rank =
        config.pipeline > 4 ? 2 : static_cast<int>(2 + choose.up_to(2));
  int const stages = config.pipeline * (is_v ? 2 : config.schedule.stages_per_rank);
  config.model.blocks = stages + choose.up_to(3);
  config.microbatch = choose.pick<index>({1, 1, 2, 2, 3, 4, 5, 7, 8, 16});
  config.sizes.batch = choose.pick<index>({5, 11, 16});
  config.divide_rows = choose.one_in(2);
  config.measure = choose.one_in(4);
  config.model.tied = choose.one_in(2);
  config.model.gated = choose.one_in(3);
  config.frozen =
      choose.pick<std::vector<std::string>>({{}, {}, {"mix"}, {"wte", "norm"}, {"block.0"}});
  config.second_group =
      choose.pick<std::vector<std::string>>({{}, {"bias", "gain"}, {"head", "up"}});

  auto& attention = config.model.attention;
  attention.method =
      choose.one_in(2) ? context_parallel::method::ring : context_parallel::method::ulysses;
  bool const exchanges_heads =
      attention.method == context_parallel::method::ulysses && config.context > 1;
  index const head_multiple = config.tensor * (exchanges_heads ? config.context : 1);
  index const heads =
      choose.one_in(5) ? 12 : (6 + head_multiple - 1) / head_multiple * head_multiple;
  attention.heads = heads;
  std::vector<index> key_head_counts{0, heads, heads, head_multiple};
  if (!exchanges_heads && config.tensor % 2 == 0)
    key_head_counts.insert(key_head_counts.end(), 3, config.tensor / 2);
  attention.key_heads = choose.pick(key_head_counts);
  if (heads % std::max<index>(attention.key_heads, 1) != 0) attention.key_heads = heads;
  config.model.head_dim = 2;
  config.model.hidden = 2 * heads;
  config.sizes.vocabulary = 2 * heads;
  if (config.tensor > 1 && !choose.one_in(3)) {
    if (!exchanges_heads) choose_uneven_heads(config, choose);
    config.model.hidden = config.tensor + choose.up_to(2 * heads);
    config.sizes.vocabulary = config.tensor + choose.up_to(2 * heads);
  }
  config.sizes.length = config.context * std::lcm(2, config.tensor);
  if (config.sizes.length < 4) config.sizes.length = 6;
  if (choose.one_in(2)) config.model.recompute = 1 + choose.up_to(config.model.blocks);
  config.reduce_every_microbatch = config.level < zero::level::gradients || choose.one_in(2);
  config.gather_before_use = choose.one_in(2);
  config.one_queue = choose.one_in(3);
  return config;
}

/// `count` layouts for each mix of degrees whose product is at most `max_ranks`.
inline std::vector<layout> all_layouts(int max_ranks, int count) {
  namespace axis = parallel::axis;
  std::vector<layout> out;
  std::uint64_t seed = 0;
  for (int p = 1; p <= max_ranks; ++p)
    for (int r = 1; p * r <= max_ranks; ++r)
      for (int s = 1; p * r * s <= max_ranks; ++s)
        for (int c = 1; p * r * s * c <= max_ranks; ++c)
          for (int t = 1; p * r * s * c * t <= max_ranks; ++t)
            for (int i = 0; i < count; ++i)
              out.push_back(random_layout(parallel::training_layout{}
                                              .with_degree<axis::pipeline>(p)
                                              .with_degree<axis::replicate>(r)
                                              .with_degree<axis::shard>(s)
                                              .with_degree<axis::context>(c)
                                              .with_degree<axis::tensor>(t),
                                          ++seed));
  return out;
}

/// `count` of the layouts, evenly spread.
inline std::vector<layout> spread(std::vector<layout> const& layouts, std::size_t count) {
  std::vector<layout> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(layouts[(2 * i + 1) * layouts.size() / (2 * count)]);
  return out;
}

/// The message with which a layout must be refused by the documented rules; empty for a valid one.
inline std::string refusal(layout const& config) {
  auto const& attention = config.model.attention;
  auto const refuse_small = [&](std::string_view quantity, index count) {
    return count >= config.tensor
               ? std::string()
               : parallel::concat("tensor parallelism: ", quantity, ' ', count,
                                  " is not enough for ", config.tensor, " ranks");
  };
  if (auto const out = refuse_small("the vocabulary", config.sizes.vocabulary); !out.empty())
    return out;
  if (auto const out = refuse_small("the number of heads", attention.heads); !out.empty())
    return out;
  if (config.context > 1 && attention.method == context_parallel::method::ulysses) {
    index const keys = attention.key_heads;
    index const groups = keys > 0 ? keys : attention.heads;  // of query heads that share a key head
    index const heads_per_group = attention.heads / groups;
    index const ranks_per_group = std::max<index>(1, config.tensor / groups);
    // Rounding up gives the tensor rank with the most heads, rounding down the one with the fewest.
    for (index const rounding : {config.tensor - 1, 0}) {
      index const local_groups = std::max<index>((groups + rounding) / config.tensor, 1);
      index const heads =
          local_groups *
          ((heads_per_group + std::min(rounding, ranks_per_group - 1)) / ranks_per_group);
      if (heads % config.context != 0)
        return parallel::concat("context: ", heads, " query heads cannot be divided among ",
                                config.context, " ranks");
      if (keys > 0 && local_groups % config.context != 0)
        return parallel::concat("context: ", local_groups, " key heads cannot be divided among ",
                                config.context, " ranks");
    }
  }
  return refuse_small("the number of hidden units", config.model.hidden);
}

}  // namespace test
