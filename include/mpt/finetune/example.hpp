// An example: one row of finetuning data as ids, with the id that each position is trained to
// predict.
#pragma once

#include <cstdint>
#include <vector>

namespace mpt::finetune {

/// The label of a position that is not trained on.
inline constexpr std::int32_t no_label = -100;

/// One sequence to train on. `labels[i]` is ids[i + 1], the id that position i is trained to
/// predict, or `no_label`; both vectors have the same length, and the last label is `no_label`.
struct example {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;

  friend bool operator==(example const&, example const&) = default;
};

/// One tokenised exchange: the prompt and the response that the model learns to give.
struct turn {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> response;

  friend bool operator==(turn const&, turn const&) = default;
};

}  // namespace mpt::finetune
