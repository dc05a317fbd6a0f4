// Layouts of the exact ring model, generated: mixes of all axes, ZeRO stages, schedules, sizes of
// microbatches and kinds of models. What one rank computes is the oracle of every one.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/ring_run.hpp"

namespace test {

/// Everything in which a layout differs from others, in words.
inline std::string text(layout const& how) {
  auto const list = [](std::vector<std::string> const& parts) {
    std::string out;
    for (auto const& part : parts) out += part + ' ';
    return out;
  };
  auto const& m = how.model;
  auto out = parallel::concat(
      how.shape().text(), "; ZeRO ", static_cast<int>(how.level),
      how.reshard ? "" : ", values kept", how.reduce_every_microbatch ? "" : ", reduced once",
      how.gather_before_use ? ", gathered before use" : "", how.one_queue ? ", in one queue" : "",
      ", buckets of ", how.bucket_bytes, "; ", how.schedule.schedule, ' ',
      how.schedule.stages_per_rank, " of ", m.blocks, " blocks; ", how.sizes.batch,
      " sequences of ", how.sizes.length, " in microbatches of ", how.microbatch);
  out += parallel::concat(
      "; ", m.attention.heads, '/', m.attention.key_heads, " heads",
      m.attention.method == context_parallel::method::ring ? ", ring" : ", ulysses", ", ", m.hidden,
      " hidden units, ", how.sizes.vocabulary, " words", how.divide_rows ? ", rows divided" : "",
      m.tied ? ", tied" : "", m.gated ? ", gated" : "", how.measure ? ", measured" : "");
  if (m.recompute > 0) out += parallel::concat(", ", m.recompute, " blocks recomputed");
  return out + "; frozen " + list(how.frozen) + "; second group " + list(how.second_group);
}

/// What differs first; empty when nothing does.
inline std::string difference(outcome const& got, outcome const& expected) {
  if (!got.complete()) return "some elements are on no rank";
  if (!got.ranks_agree) return "ranks disagree";
  if (!got.frozen_is_lean) return "frozen segments have gradients or states";
  if (got.losses != expected.losses) return "losses";
  if (got.tokens != expected.tokens) return "numbers of tokens";
  for (auto const& [of, mine, others] :
       {std::tuple("gradient of ", &got.gradients, &expected.gradients),
        std::tuple("parameter ", &got.parameters, &expected.parameters)}) {
    if (mine->size() != others->size()) return parallel::concat("number of tensors: ", of);
    for (auto const& [name, values] : *mine)
      if (!others->contains(name) || others->at(name) != values) return of + name;
  }
  if (got.squared_norms != expected.squared_norms) return "squared norms";
  return got.tensors == expected.tensors ? "" : "measured tensors";
}

/// What one rank computes in one microbatch, without ZeRO or recomputation: what every layout of
/// the same model, data and optimizers must give.
[[nodiscard]] inline layout alone(layout const& how) {
  layout one;
  one.microbatch = how.sizes.batch;
  one.frozen = how.frozen;
  one.second_group = how.second_group;
  one.num_steps = how.num_steps;
  one.model = how.model;
  one.model.recompute = 0;
  one.measure = how.measure;
  one.sizes = how.sizes;
  return one;
}

/// Outcomes of one rank, each computed once.
class ring_references {
 public:
  outcome const& of(layout const& how) {
    auto const one = alone(how);
    auto const key = parallel::concat(text(one), ' ', one.num_steps);
    if (!known_.contains(key)) known_.emplace(key, run(one));
    return known_.at(key);
  }
  [[nodiscard]] std::size_t size() const { return known_.size(); }

 private:
  std::map<std::string, outcome> known_;
};

/// One of the choices by a random number.
class chooser {
 public:
  explicit chooser(std::uint64_t seed) : random_(seed, parallel::stream_id("layouts")) {}
  index up_to(index count) {
    return static_cast<index>(random_.bits(next_++) % static_cast<std::uint64_t>(count));
  }
  bool one_in(index count) { return up_to(count) == 0; }
  template <class T>
  T of(std::vector<T> const& choices) {
    return choices[static_cast<std::size_t>(up_to(std::ssize(choices)))];
  }

 private:
  parallel::philox random_;
  std::uint64_t next_ = 0;
};

/// Heads that the tensor degree need not divide, and key heads of some of them each: some for each
/// rank, or one for several ranks.
inline void choose_uneven_heads(layout& how, chooser& choose) {
  auto& attention = how.model.attention;
  index const ranks = how.tensor;
  if (choose.one_in(2)) {
    attention.heads = ranks + choose.up_to(ranks + 4);
    attention.key_heads = choose.of<index>({0, attention.heads});
    return;
  }
  std::vector<index> keys{ranks, ranks + 1, 2 * ranks - 1};
  for (index k = 1; k < ranks; ++k)
    if (ranks % k == 0) keys.push_back(k);
  attention.key_heads = choose.of(keys);
  index const sharers = std::max<index>(1, ranks / attention.key_heads);
  attention.heads = attention.key_heads * (sharers + choose.up_to(3));
}

/// A layout with these degrees; whatever else there is to choose is chosen by `seed`. Sizes are
/// such that they divide, but for many along the tensor axis and some others.
inline layout some_layout(parallel::training_layout const& shape, std::uint64_t seed) {
  namespace axis = parallel::axis;
  chooser choose(seed);
  layout how;
  how.num_steps = 2;
  how.pipeline = shape.degree<axis::pipeline>();
  how.tensor = shape.degree<axis::tensor>();
  how.context = shape.degree<axis::context>();
  int const shards = shape.degree<axis::shard>();
  int const replicas = shape.degree<axis::replicate>();
  how.level = choose.of<zero::level>({all_levels[1], all_levels[2], all_levels[3]});
  if (shards == 1 && choose.one_in(2)) {
    how.level = zero::level::none;
    how.ranks = replicas;
  } else {
    how.ranks = shards;
    how.replicas = replicas;
  }
  how.reshard = how.level != zero::level::parameters || !choose.one_in(3);
  how.bucket_bytes = choose.of<std::size_t>({1, 2000, std::size_t{1} << 30});
  how.schedule.schedule =
      choose.of<std::string>({"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"});
  bool const is_v = how.schedule.schedule == "zb-v" || how.schedule.schedule == "dual-pipe-v";
  if (how.schedule.schedule == "interleaved")
    how.schedule.stages_per_rank = how.pipeline > 4 ? 2 : static_cast<int>(2 + choose.up_to(2));
  int const stages = how.pipeline * (is_v ? 2 : how.schedule.stages_per_rank);
  how.model.blocks = stages + choose.up_to(3);
  how.microbatch = choose.of<index>({1, 1, 2, 2, 3, 4, 5, 7, 8, 16});
  how.sizes.batch = choose.of<index>({5, 11, 16});
  how.divide_rows = choose.one_in(2);
  how.measure = choose.one_in(4);
  how.model.tied = choose.one_in(2);
  how.model.gated = choose.one_in(3);
  how.frozen = choose.of<std::vector<std::string>>({{}, {}, {"mix"}, {"wte", "norm"}, {"block.0"}});
  how.second_group = choose.of<std::vector<std::string>>({{}, {"bias", "gain"}, {"head", "up"}});

  auto& attention = how.model.attention;
  attention.method =
      choose.one_in(2) ? context_parallel::method::ring : context_parallel::method::ulysses;
  bool const exchanges = attention.method == context_parallel::method::ulysses && how.context > 1;
  index const least = how.tensor * (exchanges ? how.context : 1);
  index const heads = choose.one_in(5) ? 12 : (6 + least - 1) / least * least;
  attention.heads = heads;
  std::vector<index> keys{0, heads, heads, least};
  if (!exchanges && how.tensor % 2 == 0) keys.insert(keys.end(), 3, how.tensor / 2);
  attention.key_heads = choose.of(keys);
  if (heads % std::max<index>(attention.key_heads, 1) != 0) attention.key_heads = heads;
  how.model.head_dim = 2;
  how.model.hidden = 2 * heads;
  how.sizes.vocabulary = 2 * heads;
  if (how.tensor > 1 && !choose.one_in(3)) {
    if (!exchanges) choose_uneven_heads(how, choose);
    how.model.hidden = how.tensor + choose.up_to(2 * heads);
    how.sizes.vocabulary = how.tensor + choose.up_to(2 * heads);
  }
  how.sizes.length = how.context * std::lcm(2, how.tensor);
  if (how.sizes.length < 4) how.sizes.length = 6;
  if (choose.one_in(2)) how.model.recompute = 1 + choose.up_to(how.model.blocks);
  how.reduce_every_microbatch = how.level < zero::level::gradients || choose.one_in(2);
  how.gather_before_use = choose.one_in(2);
  how.one_queue = choose.one_in(3);
  return how;
}

/// Some layouts for each mix of degrees whose product is at most `most`.
inline std::vector<layout> all_layouts(int most, int each) {
  namespace axis = parallel::axis;
  std::vector<layout> out;
  std::uint64_t seed = 0;
  for (int p = 1; p <= most; ++p)
    for (int r = 1; p * r <= most; ++r)
      for (int s = 1; p * r * s <= most; ++s)
        for (int c = 1; p * r * s * c <= most; ++c)
          for (int t = 1; p * r * s * c * t <= most; ++t)
            for (int i = 0; i < each; ++i)
              out.push_back(some_layout(parallel::training_layout{}
                                            .with_degree<axis::pipeline>(p)
                                            .with_degree<axis::replicate>(r)
                                            .with_degree<axis::shard>(s)
                                            .with_degree<axis::context>(c)
                                            .with_degree<axis::tensor>(t),
                                        ++seed));
  return out;
}

/// `count` of them, evenly spread.
inline std::vector<layout> spread(std::vector<layout> const& all, std::size_t count) {
  std::vector<layout> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(all[(2 * i + 1) * all.size() / (2 * count)]);
  return out;
}

/// How a layout is to be refused, by the rules as they are documented; empty: it is not.
inline std::string refusal(layout const& how) {
  auto const& attention = how.model.attention;
  auto const few = [&](std::string_view what, index count) {
    return count >= how.tensor ? std::string()
                               : parallel::concat("tensor parallelism: ", what, ' ', count,
                                                  " is not enough for ", how.tensor, " ranks");
  };
  if (auto const out = few("the vocabulary", how.sizes.vocabulary); !out.empty()) return out;
  if (auto const out = few("the number of heads", attention.heads); !out.empty()) return out;
  if (how.context > 1 && attention.method == context_parallel::method::ulysses) {
    index const keys = attention.key_heads;
    index const units = keys > 0 ? keys : attention.heads;
    index const each = attention.heads / units;
    index const sharers = std::max<index>(1, how.tensor / units);
    for (index const more : {how.tensor - 1, 0}) {  // of the rank with most, and with fewest
      index const here = std::max<index>((units + more) / how.tensor, 1);
      index const heads = here * ((each + std::min(more, sharers - 1)) / sharers);
      if (heads % how.context != 0)
        return parallel::concat("context: ", heads, " query heads cannot be divided among ",
                                how.context, " ranks");
      if (keys > 0 && here % how.context != 0)
        return parallel::concat("context: ", here, " key heads cannot be divided among ",
                                how.context, " ranks");
    }
  }
  return few("the number of hidden units", how.model.hidden);
}

}  // namespace test
