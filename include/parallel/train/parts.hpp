// parts: the parts of a model, which of them a pipeline stage holds, and the passes of parts that
// each computation of a stage consists of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::train {

/// The parts of a model, in forward order: embed = -1, block i = i, head_loss = num_blocks. A unit
/// names the parts that compute with it.
using part = index;
/// The part before the blocks.
inline constexpr part embed = -1;

/// The parts [begin, end) of a model's blocks, and whether the model's entry and exit come with
/// them.
struct stage_range {
  index begin = 0;
  index end = 0;
  bool entry = true;
  bool exit = true;

  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool holds(part p) const {
    return p == embed ? entry : (begin <= p && p < end) || (exit && p == end);
  }
  /// The first part of a forward pass, and the last.
  [[nodiscard]] constexpr part front() const { return entry ? embed : begin; }
  [[nodiscard]] constexpr part back() const { return exit ? end : end - 1; }
};

/// The passes of one part for one microbatch.
enum class pass_kind : std::uint8_t {
  forward,
  forward_backward,  // both passes of the exit as one, in training
  backward,          // gradients of the input, then of the weights
  backward_input,
  backward_weight,
  /// Waits for the part's gradients of weights, if they are computed at the same time as other
  /// passes.
  join
};

[[nodiscard]] constexpr std::string_view to_string(pass_kind kind) {
  constexpr std::string_view names[] = {"forward",        "forward_backward", "backward",
                                        "backward_input", "backward_weight",  "join"};
  return names[static_cast<std::size_t>(kind)];
}

/// The numbers of buffers between which passes alternate when gradients of weights are computed at
/// the same time. Scratch memory alternates, and so do the gradients that one block passes to the
/// next, because the weight gradients of the previous block still read them.
struct alternating_buffers {
  static constexpr std::size_t scratch = 2, gradients = 3;
};

/// Whether a pass reads the values of its part's parameters. Gradients of weights do not need them.
[[nodiscard]] constexpr bool reads_values(pass_kind kind) {
  return kind <= pass_kind::backward_input;
}
/// Whether a pass adds to the gradients of its part's parameters.
[[nodiscard]] constexpr bool adds_gradients(pass_kind kind) {
  return kind == pass_kind::forward_backward || kind == pass_kind::backward ||
         kind == pass_kind::backward_weight;
}

/// A pass of one part of the model.
struct part_pass {
  pass_kind kind = pass_kind::forward;
  part model_part = embed;
  /// For a backward pass whose weight gradients run on a separate stream, those of a block at the
  /// same time as the input gradient of the next block.
  bool is_overlapped = false;

  friend constexpr bool operator==(part_pass const&, part_pass const&) = default;
};

/// The passes of one microbatch through the parts of a stage, in the order in which they are
/// enqueued. `overlap_weights`: in a computation that makes both gradients, those of weights run on
/// a separate stream.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::vector<part_pass> passes_of(
    stage_range const& range, pipeline::action_kind computes, pass mode, bool overlap_weights) {
  using enum pass_kind;
  std::vector<part_pass> passes;
  if (computes == pipeline::action_kind::forward) {
    for (part p = range.front(); p < range.end; ++p) passes.push_back({forward, p});
    if (range.exit)
      passes.push_back({mode == pass::training ? forward_backward : forward, range.end});
    return passes;
  }
  bool const is_overlapped = overlap_weights && computes == pipeline::action_kind::backward;
  for (part p = range.end; p-- > range.begin;) {
    if (computes == pipeline::action_kind::backward_weight) {
      passes.push_back({backward_weight, p});
    } else if (computes == pipeline::action_kind::backward_input) {
      passes.push_back({backward_input, p});
    } else if (!is_overlapped) {
      passes.push_back({backward, p});
    } else {
      passes.push_back({backward_input, p, true});
      if (p + 1 < range.end) passes.push_back({join, p + 1, true});
      passes.push_back({backward_weight, p, true});
    }
  }
  if (is_overlapped && range.begin < range.end) passes.push_back({join, range.begin, true});
  // the entry has no input gradient
  if (range.entry && computes != pipeline::action_kind::backward_input)
    passes.push_back({backward_weight, embed});
  return passes;
}

}  // namespace parallel::train
