// What one row of finetuning data becomes: ids, and for each position the id it is trained to
// predict.
#pragma once

#include <cstdint>
#include <vector>

namespace mpt::finetune {

/// The label of a position that is not trained on.
inline constexpr std::int32_t no_label = -100;

/// One sequence to train on. `labels[i]` is the id that position i is trained to predict, so
/// ids[i + 1], or `no_label`; both have the same length, and the last label is `no_label`.
struct example {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;

  friend bool operator==(example const&, example const&) = default;
};

/// One exchange as a tokenizer gives it: what the model is asked and what it shall answer.
struct turn {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> response;

  friend bool operator==(turn const&, turn const&) = default;
};

}  // namespace mpt::finetune
