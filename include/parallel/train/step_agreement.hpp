// step_agreement: whether all ranks are about to do the same step, asked before they do it.
//
// A rank that gives fewer microbatches than another, or evaluates while the others train, leaves
// them waiting in exchanges that it never comes to. The ranks tell each other what they begin on a
// communication stream, beside the first computations, and all end with one sentence when they
// differ. Cost: one exchange of a signature (256 bytes a rank) each step.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/signature_exchange.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/attempt.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// What ranks do together with a stepper.
enum class joint_work : std::uint8_t {
  passes,  // a step, or an evaluation
  sums,    // evaluations' sums over all ranks
  save     // a checkpoint
};

/// What a rank begins.
struct step_terms {
  pass mode = pass::training;
  std::uint32_t step = 0;  // of training
  std::size_t microbatches = 0;
  double learning_rate_factor = 0;  // of training
  bool measuring = false;           // every tensor
  std::uint32_t limits = 0;         // step_limits::fingerprint of training
  joint_work work = joint_work::passes;
  std::optional<std::uint64_t> seed = {};  // of the values that parameters began with

  friend bool operator==(step_terms const&, step_terms const&) = default;
};

/// "step 3 of 9 microbatches with learning rate factor 1"; "an evaluation of 2 microbatches".
[[nodiscard]] inline std::string describe(step_terms const& one) {
  if (one.work == joint_work::sums) return "the sum of its evaluations over ranks";
  if (one.work == joint_work::save) return "to save a checkpoint";
  auto const batches =
      concat(" of ", one.microbatches, one.microbatches == 1 ? " microbatch" : " microbatches");
  if (one.mode == pass::inference) return "an evaluation" + batches;
  return concat("step ", one.step, batches, " with learning rate factor ", one.learning_rate_factor,
                one.measuring ? ", measuring tensors" : "",
                one.limits != 0 ? concat(", limits with fingerprint ", one.limits) : "");
}

/// The sentence that says how ranks differ in what they begin; empty: they may. `in_step`: all
/// ranks give as many microbatches, else only those along other axes than replicate and shard.
/// Rank r is called names[r], or r when there are no names.
[[nodiscard]] inline std::string disagreement(std::span<step_terms const> by_rank,
                                              training_layout const& shape, bool in_step,
                                              std::span<int const> names = {}) {
  bool counts = true, rest = true;
  std::map<int, std::size_t> expected;  // microbatches, by the ranks that must give as many
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    step_terms const& one = by_rank[rank];
    int const group =
        in_step ? 0 : shape.position<axis::replicate, axis::shard>(static_cast<int>(rank));
    counts =
        counts && expected.try_emplace(group, one.microbatches).first->second == one.microbatches;
    step_terms same = by_rank.front();
    same.microbatches = one.microbatches;
    same.seed = one.seed;
    rest = rest && same == one;
  }
  bool const seeds = counts && rest && std::ranges::any_of(by_rank, [&](step_terms const& one) {
                       return one.seed != by_rank.front().seed;
                     });
  if (counts && rest && !seeds) return {};
  std::vector<std::pair<step_terms, std::vector<int>>> parties;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    step_terms one = by_rank[rank];
    if (!seeds) one.seed.reset();
    std::size_t at = 0;
    while (at < parties.size() && parties[at].first != one) ++at;
    if (at == parties.size()) parties.push_back({one, {}});
    parties[at].second.push_back(names.empty() ? static_cast<int>(rank) : names[rank]);
  }
  std::string out = "ranks begin different steps: ";
  for (auto const& [terms, ranks] : parties)
    out += concat(name_ranks(ranks), ranks.size() == 1 ? " begins " : " begin ", describe(terms),
                  !seeds       ? ""
                  : terms.seed ? concat(", with the initial values of seed ", *terms.seed)
                               : ", with values that are no seed's",
                  "; ");
  return out + (seeds  ? "initialise by one seed on all ranks"
                : rest ? "give as many microbatches on every rank, those without sequences last"
                       : "all ranks must make the same calls of the stepper in the same order");
}

/// Enqueues the question on `exchanges`. When ranks differ, it fails with the sentence on all.
/// `world`, which `shape` arranges, must outlive the task.
template <class Comm, class Exchange>
void agree(Comm& world, training_layout const& shape, bool in_step, Exchange& exchanges,
           step_terms const& mine) {
  require(std::isfinite(mine.learning_rate_factor), "a step's learning rate factor is ",
          mine.learning_rate_factor, "; it must be a finite number");
  if (world.size() == 1) return;
  auto told =
      signature_of({.kind = operation_kind::agreement, .count = mine.microbatches}, mine.step);
  told.tag = static_cast<std::int32_t>(mine.mode);
  told.file_hash = std::bit_cast<std::uint64_t>(mine.learning_rate_factor);
  told.peer = static_cast<std::int32_t>(mine.limits);
  told.reserved = static_cast<std::uint8_t>((mine.measuring ? 1 : 0) | (mine.seed ? 2 : 0) |
                                            (int(mine.work) << 2));
  std::uint64_t const seed = mine.seed.value_or(0);
  std::memcpy(told.file.data(), &seed, sizeof seed);  // the caller's place says nothing here
  auto const compare = [shape, in_step, &world](std::vector<signature> const& said) {
    std::vector<step_terms> all;
    std::vector<int> names;
    for (int rank = 0; rank < world.size(); ++rank) names.push_back(world.world_rank(rank));
    for (signature const& one : said) {
      std::uint64_t its_seed = 0;
      std::memcpy(&its_seed, one.file.data(), sizeof its_seed);
      all.push_back({static_cast<pass>(one.tag), static_cast<std::uint32_t>(one.sequence),
                     static_cast<std::size_t>(one.count), std::bit_cast<double>(one.file_hash),
                     (one.reserved & 1) != 0, static_cast<std::uint32_t>(one.peer),
                     static_cast<joint_work>(one.reserved >> 2),
                     (one.reserved & 2) != 0 ? std::optional(its_seed) : std::nullopt});
    }
    auto const message = disagreement(all, shape, in_step, names);
    if (message.empty()) return;
    world.abort(message);
    fail(message);
  };
  if constexpr (requires { requires Exchange::waits_for_any_event; }) {  // its tasks may block
    if constexpr (requires { world.open_exchange(&exchanges); })
      exchanges.enqueue(
          [exchange = world.open_exchange(&exchanges), told, compare] { compare(exchange(told)); });
    else  // a stream of the host, of ranks that exchange on GPUs' streams
      compare(world.open_exchange()(told));
  } else if constexpr (!task_stream<Exchange>) {  // nor does it run tasks: the calling thread meets
    compare(world.open_exchange()(told));
  } else {
    auto const own = std::make_shared<signature>(told);
    auto const all =
        std::make_shared<std::vector<signature>>(static_cast<std::size_t>(world.size()));
    auto const bytes = [](auto* of, std::size_t count) {
      return std::span(reinterpret_cast<std::uint8_t*>(of), count * sizeof *of);
    };
    world
        .all_gather(exchanges, bytes(all->data(), all->size()),
                    std::span<std::uint8_t const>(bytes(own.get(), 1)))
        .keep(own)
        .wait_on(exchanges);
    exchanges.enqueue([all, compare] { compare(*all); });
  }
}

/// The same of passes: on all ranks of `groups` (process_groups), or, of an evaluation that those
/// with other data need not begin, on those that share a model. The latter blocks.
template <class Groups, class Exchange>
void agree_on_passes(Groups& groups, bool all, bool in_step, Exchange& exchanges,
                     step_terms const& mine) {
  if (all || groups.data_ranks() == 1)
    return agree(groups.world(), groups.shape(), in_step, exchanges, mine);
  agree(groups.tensor, groups.shape(), true, exchanges, mine);
  agree(groups.context, groups.shape(), true, exchanges, mine);
  exchanges.synchronize();
}

/// Between steps: whether all ranks begin this; where others begin something else, it throws the
/// sentence on all. Collective; blocks.
template <class Comm, class Exchange>
void begin_together(Comm& world, training_layout const& shape, Exchange& exchanges,
                    joint_work what) {
  attempt(
      world, [&](auto const& f) { f(exchanges); },
      [&] {
        agree(world, shape, false, exchanges, {.work = what});
        exchanges.synchronize();
      });
}

}  // namespace parallel::train
