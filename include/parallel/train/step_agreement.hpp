// step_agreement: whether all ranks are about to do the same step, asked before they do it.
//
// A rank that gives fewer microbatches than another, or evaluates while the others train, leaves
// them waiting in exchanges that it never comes to. The ranks tell each other what they begin on a
// communication stream, beside the first computations, and all end with one sentence when they
// differ. Cost: one exchange of a signature (256 bytes a rank) each step.
#pragma once

#include <algorithm>
#include <array>
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
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/signature_exchange.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/attempt.hpp>
#include <parallel/train/batch_summary.hpp>
#include <parallel/train/known_memory.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// What ranks do together with a stepper.
enum class joint_work : std::uint8_t {
  passes,  // a step, or an evaluation
  sums,    // evaluations' sums over all ranks
  save,    // a checkpoint
  resume   // from one
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
  std::optional<std::uint64_t> seed = {};     // of the values that parameters began with
  std::uint64_t random_seed = 0;              // position::seed, of training
  std::optional<std::uint32_t> updates = {};  // position::updates, of training
  batch_summary data = {};
  loss_rows counted = loss_rows::unknown;  // by the exit, of the rows that are here
  std::array<char, 64> what = {};          // that is saved, and where, closed by a zero

  friend bool operator==(step_terms const&, step_terms const&) = default;
};
static_assert(std::is_trivially_copyable_v<step_terms> &&
              sizeof(step_terms) <= sizeof(signature::file));

/// "step 3 of 9 microbatches with learning rate factor 1"; "an evaluation of 2 microbatches".
[[nodiscard]] inline std::string describe(step_terms const& one) {
  if (one.work == joint_work::sums) return "the sum of its evaluations over ranks";
  if (one.work == joint_work::resume) return "to resume from a checkpoint";
  if (one.work == joint_work::save)
    return concat("to save ", one.what[0] == '\0' ? "a checkpoint" : one.what.data());
  auto const batches =
      concat(" of ", one.microbatches, one.microbatches == 1 ? " microbatch" : " microbatches");
  if (one.mode == pass::inference) return "an evaluation" + batches;
  return concat("step ", one.step, batches, " with learning rate factor ", one.learning_rate_factor,
                one.measuring ? ", measuring tensors" : "",
                one.limits != 0 ? concat(", limits with fingerprint ", one.limits) : "");
}

namespace detail {

/// One thing in which ranks may differ though they must not, and what to do then.
struct step_difference {
  bool (*same)(step_terms const& a, step_terms const& b);
  /// What is said of it beside `describe`.
  std::string (*more)(step_terms const& of);
  std::string_view remedy;
};

inline constexpr step_difference calls_differ{
    [](step_terms const& a, step_terms const& b) {
      auto same = a;
      same.microbatches = b.microbatches;
      same.seed = b.seed;
      same.random_seed = b.random_seed;
      same.updates = b.updates;
      same.data = b.data;
      same.counted = b.counted;
      return same == b;
    },
    [](step_terms const&) { return std::string(); },
    "all ranks must make the same calls of the stepper in the same order"};
inline constexpr step_difference counts_differ{
    [](step_terms const& a, step_terms const& b) { return a.microbatches == b.microbatches; },
    [](step_terms const&) { return std::string(); },
    "give as many microbatches on every rank, those without sequences last"};
inline constexpr step_difference seeds_differ{
    [](step_terms const& a, step_terms const& b) { return a.seed == b.seed; },
    [](step_terms const& of) {
      return of.seed ? concat(", with the initial values of seed ", *of.seed)
                     : std::string(", with values that are no seed's");
    },
    "initialise by one seed on all ranks"};
inline constexpr step_difference positions_differ{
    [](step_terms const& a, step_terms const& b) {
      return a.random_seed == b.random_seed && a.updates == b.updates;
    },
    [](step_terms const& of) {
      return concat(", at position.seed ", of.random_seed,
                    of.updates ? concat(" and position.updates ", *of.updates) : std::string());
    },
    "give all ranks the same seed and updates"};
inline constexpr step_difference data_differ{
    [](step_terms const& a, step_terms const& b) { return a.data == b.data; },
    [](step_terms const& of) {
      return concat(", of ", of.data.rows, " rows from sequence ", of.data.first_sequence,
                    " on (fingerprint ", of.data.hash % 10000, ")");
    },
    "these ranks, along the tensor, pipeline and context axes, share one part of the data, with "
    "the "
    "same microbatches and first_sequences; choose it by process_groups::data_rank(), not by the "
    "rank in the world"};
inline constexpr step_difference counting_differs{
    [](step_terms const& a, step_terms const& b) {
      auto const lacks = [](step_terms const& one, step_terms const& other) {
        return one.counted == loss_rows::own && other.counted == loss_rows::none;
      };
      return !lacks(a, b) && !lacks(b, a);
    },
    [](step_terms const& of) {
      return std::string(of.counted == loss_rows::none ? ", and its head_loss counts nothing"
                                                       : ", and its head_loss counts its own rows");
    },
    "where tensor ranks have rows of their own (.sequence = true), each adds loss and tokens of "
    "its rows, not the first alone"};

}  // namespace detail

/// The sentence that says how ranks differ in what they begin; empty: they may. `in_step`: all
/// ranks give as many microbatches, else only those along other axes than replicate and shard,
/// which have the same data. Ranks that are not all of `shape` have the same data too. Rank r is
/// called names[r], or r when there are no names.
[[nodiscard]] inline std::string disagreement(std::span<step_terms const> by_rank,
                                              training_layout const& shape, bool in_step,
                                              std::span<int const> names = {}) {
  bool const all = by_rank.size() == static_cast<std::size_t>(shape.ranks());
  auto const data_of = [&](std::size_t rank) {
    return all ? shape.position<axis::replicate, axis::shard>(static_cast<int>(rank)) : 0;
  };
  // the first rank that differs from one with which it must agree: all, or those with its data
  auto const first_other = [&](detail::step_difference const& in, bool with_same_data) {
    std::map<int, std::size_t> first;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      auto const with =
          with_same_data ? first.try_emplace(data_of(rank), rank).first->second : std::size_t{0};
      if (!in.same(by_rank[with], by_rank[rank])) return rank;
    }
    return by_rank.size();
  };
  // of those with the data of rank `other`, or of all
  auto const say = [&](detail::step_difference const& in, std::optional<std::size_t> other = {}) {
    std::vector<std::pair<std::string, std::vector<int>>> parties;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (other && data_of(rank) != data_of(*other)) continue;
      auto const said = describe(by_rank[rank]) + in.more(by_rank[rank]);
      auto at = std::ranges::find(parties, said, &std::pair<std::string, std::vector<int>>::first);
      if (at == parties.end()) at = parties.insert(at, {said, {}});
      at->second.push_back(names.empty() ? static_cast<int>(rank) : names[rank]);
    }
    std::string out = "ranks begin different steps: ";
    for (auto const& [said, who] : parties)
      out += concat(name_ranks(who), who.size() == 1 ? " begins " : " begin ", said, "; ");
    return out + std::string(in.remedy);
  };
  auto const none = by_rank.size();
  if (first_other(detail::calls_differ, false) < none) return say(detail::calls_differ);
  if (first_other(detail::counts_differ, !in_step) < none) return say(detail::counts_differ);
  for (auto const* const in : {&detail::seeds_differ, &detail::positions_differ})
    if (first_other(*in, false) < none) return say(*in);
  for (auto const* const in : {&detail::data_differ, &detail::counting_differs})
    if (auto const other = first_other(*in, true); other < none) return say(*in, other);
  return {};
}

/// Enqueues the question on `exchanges`. When ranks differ, it fails with the sentence on all.
/// `world`, which `shape` arranges, must outlive the task.
template <class Comm, class Exchange>
void agree(Comm& world, training_layout const& shape, bool in_step, Exchange& exchanges,
           step_terms const& mine) {
  require(std::isfinite(mine.learning_rate_factor) && mine.learning_rate_factor >= 0,
          "a step's learning rate factor is ", mine.learning_rate_factor,
          "; it must be a finite number, 0 or more");
  if (world.size() == 1) return;
  auto told =
      signature_of({.kind = operation_kind::agreement, .count = mine.microbatches}, mine.step);
  std::memcpy(told.file.data(), &mine, sizeof mine);  // the caller's place says nothing here
  auto const compare = [shape, in_step, &world](std::vector<signature> const& said) {
    std::vector<step_terms> all(said.size());
    std::vector<int> names;
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
      std::memcpy(&all[rank], said[rank].file.data(), sizeof all[rank]);
      names.push_back(world.world_rank(static_cast<int>(rank)));
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
        .leave_to_its_stream();
    exchanges.enqueue([all, compare] { compare(*all); });
  }
}

/// Agrees that ranks begin the same passes: on all ranks of `groups` (process_groups), or, of an
/// evaluation that those with other data need not begin, on those that share a model. The latter
/// blocks.
template <class Groups, class Exchange>
void agree_on_passes(Groups& groups, bool all, bool in_step, Exchange& exchanges,
                     step_terms const& mine) {
  if (all || groups.data_ranks() == 1)
    return agree(groups.world(), groups.shape(), in_step, exchanges, mine);
  agree(groups.tensor, groups.shape(), true, exchanges, mine);
  agree(groups.context, groups.shape(), true, exchanges, mine);
  exchanges.synchronize();
}

/// Between steps: whether all ranks begin this, and, of a checkpoint that is saved, give the same
/// end of `what`; where others begin something else, it throws the sentence on all. Collective;
/// blocks.
template <class Comm, class Exchange>
void begin_together(Comm& world, training_layout const& shape, Exchange& exchanges, joint_work work,
                    std::string_view what = {}) {
  step_terms terms{.work = work};
  if (what.size() >= terms.what.size()) what.remove_prefix(what.size() - terms.what.size() + 1);
  what.copy(terms.what.data(), what.size());
  attempt(
      world, [&](auto const& f) { f(exchanges); },
      [&] {
        agree(world, shape, false, exchanges, terms);
        exchanges.synchronize();
      });
}

}  // namespace parallel::train
