// schedule: a pipeline schedule as a value: for every rank, the ordered list of its computations.
//
// Pure functions generate schedules (schedules/), so a schedule can be printed, drawn, simulated
// and verified before anything runs, even in a static_assert. A stage is a range of the model's
// blocks; a rank holds one stage, or several (interleaved, V).
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/core/error.hpp>

namespace parallel::pipeline {

/// The computation of a rank for one microbatch at one stage. `backward` is backward_input followed
/// by backward_weight; zero-bubble schedules put other work between the two.
enum class action_kind : std::uint8_t { forward, backward_input, backward_weight, backward };

[[nodiscard]] constexpr std::string_view to_string(action_kind kind) {
  constexpr std::string_view names[] = {"forward", "backward_input", "backward_weight", "backward"};
  return names[static_cast<std::size_t>(kind)];
}

/// F, I, W, B, as in PyTorch's pipeline schedules.
[[nodiscard]] constexpr char letter_of(action_kind kind) { return "FIWB"[static_cast<int>(kind)]; }

/// A pass of one microbatch at one stage.
struct action {
  action_kind kind = action_kind::forward;
  int stage = 0;  ///< of the whole pipeline
  int microbatch = 0;

  friend constexpr auto operator<=>(action const&, action const&) = default;
};

/// The assignment of stages to ranks: loop, stage s on rank s mod p; v, ranks 0 ... p-1 and back.
enum class placement : std::uint8_t { loop, v };

struct schedule {
  std::string_view name;
  int ranks = 1;
  int microbatches = 1;
  int stages_per_rank = 1;
  placement stage_placement = placement::loop;
  bool forward_only = false;  ///< no backward passes: evaluation
  std::vector<std::vector<action>> by_rank = {};

  [[nodiscard]] constexpr int stages() const { return ranks * stages_per_rank; }

  [[nodiscard]] constexpr int rank_of(int stage) const {
    if (stage_placement == placement::v && stage / ranks % 2 == 1) return ranks - 1 - stage % ranks;
    return stage % ranks;
  }

  /// The `chunk`-th stage that `rank` holds, in the order of the model.
  [[nodiscard]] constexpr int stage_of(int rank, int chunk) const {
    bool const is_reversed = stage_placement == placement::v && chunk % 2 == 1;
    return chunk * ranks + (is_reversed ? ranks - 1 - rank : rank);
  }
};

/// Adds actions to one rank's list; microbatches pass through every chunk in order. `backward`
/// counts as both of its halves, so a chunk may have some of them together and others separate.
class rank_builder {
 public:
  PARALLELLM_VECTOR_CONSTEXPR rank_builder(schedule& target, int rank)
      : schedule_(target),
        rank_(rank),
        counts_(static_cast<std::size_t>(target.stages_per_rank) * kinds, 0) {}

  /// Adds the next `times` microbatches of a chunk, or fewer where the chunk has fewer left.
  PARALLELLM_VECTOR_CONSTEXPR void add(action_kind kind, int chunk = 0, int times = 1) {
    for (; times > 0 && !finished(kind, chunk); --times) {
      schedule_.by_rank[static_cast<std::size_t>(rank_)].push_back(
          {kind, schedule_.stage_of(rank_, chunk), count(kind, chunk)++});
      if (kind == action_kind::backward) ++count(action_kind::backward_weight, chunk);
    }
  }

  /// Adds actions of a kind for all remaining microbatches of the chunk.
  PARALLELLM_VECTOR_CONSTEXPR void finish(action_kind kind, int chunk = 0) {
    add(kind, chunk, schedule_.microbatches);
  }

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool finished(action_kind kind, int chunk = 0) {
    return count(kind, chunk) == schedule_.microbatches;
  }

 private:
  static constexpr std::size_t kinds =
      3;  // forward, backward_input (and backward), backward_weight

  PARALLELLM_VECTOR_CONSTEXPR int& count(action_kind kind, int chunk) {
    auto const counted = kind == action_kind::backward ? action_kind::backward_input : kind;
    return counts_[static_cast<std::size_t>(chunk) * kinds + static_cast<std::size_t>(counted)];
  }

  schedule& schedule_;
  int rank_;
  std::vector<int> counts_;
};

/// Builds a schedule; `fill(builder, r)` adds the actions of rank r.
template <class Fill>
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule build(schedule out, Fill fill) {
  require(out.ranks >= 1 && out.microbatches >= 1 && out.stages_per_rank >= 1, out.name,
          ": ranks, microbatches and stages per rank must be at least 1, but are ", out.ranks, ", ",
          out.microbatches, " and ", out.stages_per_rank);
  out.by_rank.resize(static_cast<std::size_t>(out.ranks));
  for (int rank = 0; rank < out.ranks; ++rank) {
    rank_builder builder(out, rank);
    fill(builder, rank);
  }
  return out;
}

}  // namespace parallel::pipeline
