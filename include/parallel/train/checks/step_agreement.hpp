// step_agreement: checks before a step that all ranks are about to make the same one.
//
// A rank that gives fewer microbatches than another, or evaluates while the others train, leaves
// them waiting in exchanges that it never reaches. The ranks tell each other what they begin on a
// communication stream, during the first computations, and all end with one sentence when they
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
#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/attempt.hpp>
#include <parallel/train/checks/known_memory.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// A few numbers that describe a rank's part of a global batch, so that ranks which must train on
/// the same part can compare them.
struct batch_summary {
  std::int64_t rows = 0;            ///< total over all microbatches
  std::int64_t first_sequence = 0;  ///< the first sequence of the first microbatch
  std::uint64_t hash = 0;           ///< combines the rows and first sequence of every microbatch

  friend bool operator==(batch_summary const&, batch_summary const&) = default;
};

/// Summarises microbatches of `model`. `first_sequences`: one number for each microbatch, or empty.
template <class Model>
[[nodiscard]] batch_summary summarise_batch(Model const& model,
                                            std::span<typename Model::microbatch const> batches,
                                            std::span<index const> first_sequences) {
  batch_summary out;
  auto const add_to_hash = [&](index number) {
    out.hash = (out.hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15ULL;
    out.hash ^= out.hash >> 32;
  };
  for (std::size_t i = 0; i < batches.size(); ++i) {
    index const rows = model.rows(batches[i]);
    index const first = first_sequences.empty() || rows == 0 ? 0 : first_sequences[i];
    if (i == 0) out.first_sequence = first;
    out.rows += rows;
    add_to_hash(rows + 1);
    add_to_hash(first + 1);
  }
  return out;
}

/// The kinds of work that all ranks begin together with a stepper.
enum class joint_work : std::uint8_t {
  passes,  // a step, or an evaluation
  sums,    // evaluations' sums over all ranks
  save,    // a checkpoint
  resume   // from a checkpoint
};

/// The terms on which a rank begins a piece of joint work.
struct step_terms {
  pass mode = pass::training;
  std::uint32_t step = 0;  ///< in training
  std::size_t microbatches = 0;
  double learning_rate_factor = 0;  ///< in training
  bool measuring = false;           ///< every tensor is measured
  std::uint32_t limits = 0;         ///< step_limits::fingerprint, in training
  joint_work work = joint_work::passes;
  std::optional<std::uint64_t> seed = {};     ///< of the initial values of parameters
  std::uint64_t random_seed = 0;              ///< position::seed, in training
  std::optional<std::uint32_t> updates = {};  ///< position::updates, in training
  batch_summary data = {};
  loss_rows counted = loss_rows::unknown;  ///< by the exit, among the rows on this rank
  std::array<char, 64> saved = {};         ///< what is saved, and where, closed by a zero

  friend bool operator==(step_terms const&, step_terms const&) = default;
};
static_assert(std::is_trivially_copyable_v<step_terms> &&
              sizeof(step_terms) <= sizeof(signature::file));

/// Describes the work that a rank begins: "step 3 of 9 microbatches with learning rate factor 1" or
/// "an evaluation of 2 microbatches".
[[nodiscard]] inline std::string describe(step_terms const& terms) {
  if (terms.work == joint_work::sums) return "the sum of its evaluations over ranks";
  if (terms.work == joint_work::resume) return "to resume from a checkpoint";
  if (terms.work == joint_work::save)
    return concat("to save ", terms.saved[0] == '\0' ? "a checkpoint" : terms.saved.data());
  auto const batches =
      concat(" of ", terms.microbatches, terms.microbatches == 1 ? " microbatch" : " microbatches");
  if (terms.mode == pass::inference) return "an evaluation" + batches;
  return concat("step ", terms.step, batches, " with learning rate factor ",
                terms.learning_rate_factor, terms.measuring ? ", measuring tensors" : "",
                terms.limits != 0 ? concat(", limits with fingerprint ", terms.limits) : "");
}

namespace detail {

/// One thing in which ranks may differ though they must not, and the remedy.
struct step_difference {
  bool (*are_equal)(step_terms const& a, step_terms const& b);
  /// The text about a rank's terms that the message adds to that of `describe`.
  std::string (*addition)(step_terms const& terms);
  std::string_view remedy;
};

inline constexpr step_difference calls_differ{
    [](step_terms const& a, step_terms const& b) {
      auto expected = a;
      expected.microbatches = b.microbatches;
      expected.seed = b.seed;
      expected.random_seed = b.random_seed;
      expected.updates = b.updates;
      expected.data = b.data;
      expected.counted = b.counted;
      return expected == b;
    },
    [](step_terms const&) { return std::string(); },
    "all ranks must make the same calls of the stepper in the same order"};
inline constexpr step_difference counts_differ{
    [](step_terms const& a, step_terms const& b) { return a.microbatches == b.microbatches; },
    [](step_terms const&) { return std::string(); },
    "give as many microbatches on every rank, those without sequences last"};
inline constexpr step_difference seeds_differ{
    [](step_terms const& a, step_terms const& b) { return a.seed == b.seed; },
    [](step_terms const& terms) {
      return terms.seed ? concat(", with the initial values of seed ", *terms.seed)
                        : std::string(", with values that are no seed's");
    },
    "initialise by one seed on all ranks"};
inline constexpr step_difference positions_differ{
    [](step_terms const& a, step_terms const& b) {
      return a.random_seed == b.random_seed && a.updates == b.updates;
    },
    [](step_terms const& terms) {
      return concat(
          ", at position.seed ", terms.random_seed,
          terms.updates ? concat(" and position.updates ", *terms.updates) : std::string());
    },
    "give all ranks the same seed and updates"};
inline constexpr step_difference data_differ{
    [](step_terms const& a, step_terms const& b) { return a.data == b.data; },
    [](step_terms const& terms) {
      return concat(", of ", terms.data.rows, " rows from sequence ", terms.data.first_sequence,
                    " on (fingerprint ", terms.data.hash % 10000, ")");
    },
    "these ranks, along the tensor, pipeline and context axes, share one part of the data, with "
    "the "
    "same microbatches and first_sequences; choose it by process_groups::data_rank(), not by the "
    "rank in the world"};
inline constexpr step_difference counting_differs{
    [](step_terms const& a, step_terms const& b) {
      auto const miscounts = [](step_terms const& one, step_terms const& other) {
        return one.counted == loss_rows::local && other.counted == loss_rows::none;
      };
      return !miscounts(a, b) && !miscounts(b, a);
    },
    [](step_terms const& terms) {
      return std::string(terms.counted == loss_rows::none
                             ? ", and its head_loss counts nothing"
                             : ", and its head_loss counts its own rows");
    },
    "where tensor ranks have rows of their own (.sequence = true), each adds loss and tokens of "
    "its rows, not the first alone"};

}  // namespace detail

/// The sentence that says how ranks differ in what they begin; empty: they do not. `in_step`: all
/// ranks must give as many microbatches, else only those along other axes than replicate and shard,
/// which have the same data. If the ranks are not all of `shape`, they have the same data too. Rank
/// r is called names[r], or r when there are no names.
template <class = void>
[[nodiscard]] std::string disagreement(std::span<step_terms const> by_rank,
                                       training_layout const& shape, bool in_step,
                                       std::span<int const> names = {}) {
  bool const all_of_shape = by_rank.size() == static_cast<std::size_t>(shape.ranks());
  auto const data_of = [&](std::size_t rank) {
    return all_of_shape ? shape.position<axis::replicate, axis::shard>(static_cast<int>(rank)) : 0;
  };
  // The first rank that differs from one with which it must agree: any rank, or one with its data.
  auto const first_other = [&](detail::step_difference const& difference, bool with_same_data) {
    std::map<int, std::size_t> first;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      auto const reference =
          with_same_data ? first.try_emplace(data_of(rank), rank).first->second : std::size_t{0};
      if (!difference.are_equal(by_rank[reference], by_rank[rank])) return rank;
    }
    return by_rank.size();
  };
  // The message about the ranks with the data of rank `other`, or about all ranks.
  auto const message_about = [&](detail::step_difference const& difference,
                                 std::optional<std::size_t> other = {}) {
    std::vector<std::pair<std::string, std::vector<int>>> parties;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (other && data_of(rank) != data_of(*other)) continue;
      auto const text = describe(by_rank[rank]) + difference.addition(by_rank[rank]);
      auto party =
          std::ranges::find(parties, text, &std::pair<std::string, std::vector<int>>::first);
      if (party == parties.end()) party = parties.insert(party, {text, {}});
      party->second.push_back(names.empty() ? static_cast<int>(rank) : names[rank]);
    }
    std::string message = "ranks begin different steps: ";
    for (auto const& [text, party_ranks] : parties)
      message += concat(name_ranks(party_ranks), party_ranks.size() == 1 ? " begins " : " begin ",
                        text, "; ");
    return message + std::string(difference.remedy);
  };
  // The first rank that trains on the sequences of an earlier one with another part of the data.
  auto const first_repetition = [&]() -> std::pair<std::size_t, std::size_t> {
    std::map<std::uint64_t, std::size_t> first;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (by_rank[rank].learning_rate_factor == 0 || by_rank[rank].data.rows == 0) continue;
      auto const earlier = first.try_emplace(by_rank[rank].data.hash, rank).first->second;
      if (data_of(earlier) != data_of(rank)) return {earlier, rank};
    }
    return {};
  };
  auto const rank_count = by_rank.size();
  if (first_other(detail::calls_differ, false) < rank_count)
    return message_about(detail::calls_differ);
  if (first_other(detail::counts_differ, !in_step) < rank_count)
    return message_about(detail::counts_differ);
  for (auto const* const difference : {&detail::seeds_differ, &detail::positions_differ})
    if (first_other(*difference, false) < rank_count) return message_about(*difference);
  for (auto const* const difference : {&detail::data_differ, &detail::counting_differs})
    if (auto const other = first_other(*difference, true); other < rank_count)
      return message_about(*difference, other);
  if (auto const [first, second] = first_repetition(); second > 0) {
    auto const name = [&](std::size_t rank) {
      return names.empty() ? static_cast<int>(rank) : names[rank];
    };
    auto const& data = by_rank[second].data;
    return concat("ranks ", name(first), " and ", name(second), " both train on ", data.rows,
                  " rows from sequence ", data.first_sequence,
                  " of the global batch on, but ranks along the replicate and shard axes have each "
                  "their own; give each its share (data::share_of by process_groups::data_rank()), "
                  "and in first_sequences its place");
  }
  return {};
}

/// The sentence about a step that changes parameters and in which no rank has a row, or nothing.
template <class = void>
[[nodiscard]] std::string nothing_to_train(std::span<step_terms const> by_rank) {
  bool const is_idle = std::ranges::all_of(by_rank, [](step_terms const& terms) {
    return terms.learning_rate_factor != 0 && terms.data.rows == 0;
  });
  return is_idle ? concat("step ", by_rank[0].step,
                          " has no sequence on any rank; where the data has ended, begin it again, "
                          "or make fewer steps")
                 : std::string();
}

/// Enqueues the comparison of terms on `exchanges`. When ranks differ, it fails with the sentence
/// on all. `world`, which `shape` arranges, must outlive the task.
template <class Comm, class Exchange>
void agree(Comm& world, training_layout const& shape, bool in_step, Exchange& exchanges,
           step_terms const& terms) {
  require(std::isfinite(terms.learning_rate_factor) && terms.learning_rate_factor >= 0,
          "a step's learning rate factor is ", terms.learning_rate_factor,
          "; it must be a finite number, 0 or more");
  if (world.size() == 1) {
    auto const message = nothing_to_train(std::span(&terms, 1));
    return require(message.empty(), message);
  }
  auto own_signature =
      signature_of({.kind = operation_kind::agreement, .count = terms.microbatches}, terms.step);
  std::memcpy(own_signature.file.data(), &terms, sizeof terms);  // the call site means nothing here
  auto const compare = [shape, in_step, &world](std::vector<signature> const& signatures) {
    std::vector<step_terms> terms_of_ranks(signatures.size());
    std::vector<int> names;
    for (std::size_t rank = 0; rank < signatures.size(); ++rank) {
      std::memcpy(&terms_of_ranks[rank], signatures[rank].file.data(), sizeof terms_of_ranks[rank]);
      names.push_back(world.world_rank(static_cast<int>(rank)));
    }
    auto message = disagreement(terms_of_ranks, shape, in_step, names);
    if (message.empty()) message = nothing_to_train(terms_of_ranks);
    if (message.empty()) return;
    world.abort(message);
    fail(message);
  };
  if constexpr (requires {
                  requires Exchange::waits_for_any_event;
                }) {  // the stream's tasks may block
    if constexpr (requires { world.open_exchange(&exchanges); })
      exchanges.enqueue([exchange = world.open_exchange(&exchanges), own_signature, compare] {
        compare(exchange(own_signature));
      });
    else  // a stream of the host, of ranks that exchange on GPUs' streams
      compare(world.open_exchange()(own_signature));
  } else if constexpr (!task_stream<Exchange>) {  // nor does it run tasks: the calling thread meets
    compare(world.open_exchange()(own_signature));
  } else {
    auto const sent = std::make_shared<signature>(own_signature);
    auto const received =
        std::make_shared<std::vector<signature>>(static_cast<std::size_t>(world.size()));
    auto const bytes = [](auto* data, std::size_t count) {
      return std::span(reinterpret_cast<std::uint8_t*>(data), count * sizeof *data);
    };
    world
        .all_gather(exchanges, bytes(received->data(), received->size()),
                    std::span<std::uint8_t const>(bytes(sent.get(), 1)))
        .keep(sent)
        .detach();
    exchanges.enqueue([received, compare] { compare(*received); });
  }
}

/// Agrees that ranks begin the same passes: on all ranks of `groups` (process_groups) or, for an
/// evaluation that ranks with other data need not begin, on those that share a model. The latter
/// blocks.
template <class Groups, class Exchange>
void agree_on_passes(Groups& groups, bool on_all_ranks, bool in_step, Exchange& exchanges,
                     step_terms const& terms) {
  if (on_all_ranks || groups.data_ranks() == 1)
    return agree(groups.world(), groups.shape(), in_step, exchanges, terms);
  agree(groups.tensor, groups.shape(), true, exchanges, terms);
  agree(groups.context, groups.shape(), true, exchanges, terms);
  exchanges.synchronize();
}

/// Checks between steps that all ranks begin this work and, when they save a checkpoint, give the
/// same end of `saved`; where others begin something else, it throws the sentence on all.
/// Collective; blocks.
template <class Comm, class Exchange>
void begin_together(Comm& world, training_layout const& shape, Exchange& exchanges, joint_work work,
                    std::string_view saved = {}) {
  step_terms terms{.work = work};
  if (saved.size() >= terms.saved.size())
    saved.remove_prefix(saved.size() - terms.saved.size() + 1);
  saved.copy(terms.saved.data(), saved.size());
  attempt(
      world, [&](auto const& f) { f(exchanges); },
      [&] {
        agree(world, shape, false, exchanges, terms);
        exchanges.synchronize();
      });
}

}  // namespace parallel::train
