// All pipeline schedules, and their selection by the name in a configuration.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

/// GPipe: all forward passes, then all backward passes (Huang et al., 2019).
///
/// Bubble (p-1)(F+B); a rank keeps the activations of all m microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule gpipe(int ranks, int microbatches) {
  return build({.name = "gpipe", .ranks = ranks, .microbatches = microbatches},
               [](rank_builder& rank, int) {
                 rank.finish(action_kind::forward);
                 rank.finish(action_kind::backward);
               });
}

/// 1F1B: after its warm-up every rank alternates one forward and one backward pass (Narayanan et
/// al., PipeDream-Flush, 2021).
///
/// It has the bubble of GPipe, (p-1)(F+B), but rank r keeps the activations of min(p-r, m)
/// microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule one_f_one_b(int ranks, int microbatches) {
  return build({.name = "1f1b", .ranks = ranks, .microbatches = microbatches},
               [=](rank_builder& rank, int r) {
                 rank.add(action_kind::forward, 0, std::min(ranks - 1 - r, microbatches));
                 while (!rank.finished(action_kind::forward)) {
                   rank.add(action_kind::forward);
                   rank.add(action_kind::backward);
                 }
                 rank.finish(action_kind::backward);
               });
}

/// Interleaved 1F1B: every rank holds v stages, p apart (Narayanan et al., Megatron-LM, 2021).
///
/// Bubble (p-1)(F+B)/v; rank r keeps the activations of at most 2(p-1-r) + (v-1)p + 1 stages, each
/// 1/v of a rank's; communication is v times that of 1F1B. m must be a multiple of p.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule interleaved(int ranks, int microbatches,
                                                               int stages_per_rank) {
  require(ranks < 1 || microbatches % ranks == 0,
          "interleaved: the number of microbatches must be a multiple of the ", ranks,
          " pipeline ranks, but is ", microbatches, "; the nearest above is ",
          ranks < 1 ? 0 : (microbatches / ranks + 1) * ranks);
  return build({.name = "interleaved",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = stages_per_rank},
               [=](rank_builder& rank, int r) {
                 // Pass k: p microbatches through chunk 0, the same through chunk 1, ...
                 auto const chunk_of = [=](int k) { return k / ranks % stages_per_rank; };
                 int const passes = microbatches * stages_per_rank;
                 int const warm_up =
                     std::min(passes, 2 * (ranks - 1 - r) + (stages_per_rank - 1) * ranks);
                 for (int k = 0; k < warm_up; ++k) rank.add(action_kind::forward, chunk_of(k));
                 for (int k = 0; k < passes; ++k) {
                   if (warm_up + k < passes) rank.add(action_kind::forward, chunk_of(warm_up + k));
                   rank.add(action_kind::backward, stages_per_rank - 1 - chunk_of(k));
                 }
               });
}

/// ZB-H1: 1F1B that delays weight gradients until the rank would be idle (Qi et al., "Zero Bubble
/// Pipeline Parallelism", 2024, fig. 3).
///
/// Bubble (p-1)(F+I-W), a third of 1F1B's when F, I and W take equal time; every rank keeps the
/// activations of at most p microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule zb_h1(int ranks, int microbatches) {
  return build({.name = "zb-h1", .ranks = ranks, .microbatches = microbatches},
               [=](rank_builder& rank, int r) {
                 int const warm_up = std::min(ranks - 1 - r, microbatches);
                 rank.add(action_kind::forward, 0, warm_up);
                 for (int i = 0; i < microbatches - warm_up; ++i) {
                   rank.add(action_kind::forward);
                   rank.add(action_kind::backward_input);
                   if (i >= r) rank.add(action_kind::backward_weight);
                 }
                 for (int i = 0; i < warm_up; ++i) {
                   rank.add(action_kind::backward_input);
                   rank.add(action_kind::backward_weight);
                 }
                 rank.finish(action_kind::backward_weight);
               });
}

/// ZB-V: each rank has two stages. They are assigned to the ranks in rank order and then in reverse,
/// so that rank 0 holds the first stage and the last (Qi et al., "Pipeline Parallelism with
/// Controllable Memory", 2024).
///
/// A rank has no bubble between its first and last action when forward, backward_input and
/// backward_weight take equal time. Every rank keeps the activations of 2p stages, for p ranks: as
/// much memory as p stages of 1F1B. ZB-V needs at least p microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule zb_v(int ranks, int microbatches) {
  require(microbatches >= ranks, "zb-v: needs at least as many microbatches as the ", ranks,
          " pipeline ranks, but there are ", microbatches);
  return build({.name = "zb-v",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = 2,
                .stage_placement = placement::v},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 auto const add_backward = [&](int chunk) {
                   rank.add(backward_input, chunk);
                   rank.add(backward_weight, chunk);
                 };
                 rank.add(forward, 0, 2 * (ranks - r) - 1);
                 for (int i = 0; i < r; ++i) {
                   rank.add(forward, 1);
                   rank.add(forward, 0);
                 }
                 for (int i = 0; i < ranks - r; ++i) {
                   rank.add(forward, 1);
                   add_backward(1);
                 }
                 while (!rank.finished(forward, 1)) {
                   rank.add(forward, 0);
                   add_backward(0);
                   rank.add(forward, 1);
                   add_backward(1);
                 }
                 for (int i = 0; i < r; ++i) {
                   rank.add(backward_input, 0);
                   rank.add(backward_input, 1);
                 }
                 for (int i = 0; i < ranks - r; ++i) add_backward(0);
                 rank.finish(backward_weight, 1);
                 rank.finish(backward_weight, 0);
               });
}

/// DualPipeV: the placement of ZB-V, with forward and backward passes of the two directions side by
/// side, so that each hides the other's communication (DeepSeek-AI, 2025: DualPipe, cut in half).
///
/// A rank keeps the activations of at most 2p + 1 stages. It needs at least 2p microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule dual_pipe_v(int ranks, int microbatches) {
  require(microbatches >= 2 * ranks, "dual-pipe-v: needs at least ", 2 * ranks,
          " microbatches, two for each of the ", ranks, " pipeline ranks, but there are ",
          microbatches);
  return build({.name = "dual-pipe-v",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = 2,
                .stage_placement = placement::v},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 std::vector<int> pending_chunks;  // whose weight gradients wait, oldest first
                 std::size_t completed = 0;
                 auto const split_backward = [&](int chunk) {
                   rank.add(backward_input, chunk);
                   pending_chunks.push_back(chunk);
                 };
                 auto const add_weight = [&] {
                   rank.add(backward_weight, pending_chunks[completed++]);
                 };
                 int const ranks_after = ranks - 1 - r;

                 rank.add(forward, 0, 2 * ranks_after);
                 for (int i = 0; i < r + 1; ++i) {
                   rank.add(forward, 0);
                   rank.add(forward, 1);
                 }
                 for (int i = 0; i < ranks_after; ++i) {
                   split_backward(1);
                   add_weight();
                   rank.add(forward, 1);
                 }
                 for (int i = 0; i < microbatches - 2 * ranks + r + 1; ++i) {
                   rank.add(forward, 0);
                   rank.add(backward, 1);
                   rank.add(forward, 1);
                   rank.add(backward, 0);
                 }
                 for (int i = 0; i < ranks_after; ++i) {
                   rank.add(backward, 1);
                   rank.add(forward, 1);
                   rank.add(backward, 0);
                 }
                 // the second half of the last 2(r+1) backward passes is split
                 for (int i = 0; i < 2 * (r + 1); ++i) {
                   int const chunk = 1 - i % 2;
                   if (i < r + 1)
                     rank.add(backward, chunk);
                   else
                     split_backward(chunk);
                 }
                 for (int i = 0; i < ranks_after; ++i) {
                   add_weight();
                   split_backward(0);
                 }
                 while (completed < pending_chunks.size()) add_weight();
               });
}

/// Forward passes alone, for evaluation, on the stages of a training schedule.
///
/// Loop: groups of p microbatches pass through chunk 0, then chunk 1, ..., as in interleaved. V:
/// rank r computes p - r microbatches in the stages on the way down before it alternates with those
/// on the way up. Any number of microbatches is supported. Time: mv + p - 1 forward passes of a
/// stage (m a multiple of p, or v = 1), in a V 2(m + p - 1).
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule
forward_only(int ranks, int microbatches, int stages_per_rank = 1,
             placement stage_placement = placement::loop) {
  require(stage_placement == placement::loop || stages_per_rank == 2,
          "forward-only: a V has two stages a rank, not ", stages_per_rank);
  return build({.name = "forward-only",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = stages_per_rank,
                .stage_placement = stage_placement,
                .forward_only = true},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 if (stage_placement == placement::loop) {
                   while (!rank.finished(forward, stages_per_rank - 1))
                     for (int chunk = 0; chunk < stages_per_rank; ++chunk)
                       rank.add(forward, chunk, ranks);
                   return;
                 }
                 rank.add(forward, 0, ranks - 1 - r);
                 while (!rank.finished(forward, 1)) {
                   rank.add(forward, 0);
                   rank.add(forward, 1);
                 }
               });
}

/// The forward passes of a schedule's stages, with the same placement.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule forward_only(schedule const& s,
                                                                int microbatches) {
  return forward_only(s.ranks, microbatches, s.stages_per_rank, s.stage_placement);
}

/// The schedule called `name`. Throws when there is no schedule of that name, or when it does not
/// support these numbers.
///
///     make_schedule("1f1b", 2, 3)  →  rank 0: F0 F1 B0 F2 B1 B2
///                                     rank 1: F0 B0 F1 B1 F2 B2
///
/// - `name`: gpipe, 1f1b, interleaved, zb-h1, zb-v or dual-pipe-v
/// - `ranks`: the number of ranks of the pipeline
/// - `microbatches`: the number of microbatches of a step, at least `least_microbatches`
/// - `stages_per_rank`: of interleaved only; the V schedules have 2, the others 1
template <class = void>
[[nodiscard]] schedule make_schedule(std::string_view name, int ranks, int microbatches,
                                     int stages_per_rank = 2) {
  if (name == "gpipe") return gpipe(ranks, microbatches);
  if (name == "1f1b") return one_f_one_b(ranks, microbatches);
  if (name == "interleaved") return interleaved(ranks, microbatches, stages_per_rank);
  if (name == "zb-h1") return zb_h1(ranks, microbatches);
  if (name == "zb-v") return zb_v(ranks, microbatches);
  if (name == "dual-pipe-v") return dual_pipe_v(ranks, microbatches);
  fail("no pipeline schedule is called '", name,
       "'; there are gpipe, 1f1b, interleaved, zb-h1, zb-v, dual-pipe-v");
}

/// The least number of microbatches, not less than `wanted`, that a schedule supports. A step with
/// fewer adds microbatches without rows. `least_microbatches("interleaved", 4, 6)` is 8.
[[nodiscard]] inline int least_microbatches(std::string_view name, int ranks, int wanted) {
  if (name == "interleaved") return (wanted + ranks - 1) / ranks * ranks;
  if (name == "zb-v") return std::max(wanted, ranks);
  if (name == "dual-pipe-v") return std::max(wanted, 2 * ranks);
  return wanted;
}

}  // namespace parallel::pipeline
