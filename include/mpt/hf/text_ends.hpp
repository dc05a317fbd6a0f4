// Which tokens end a text that a model writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

struct text_ends {
  std::vector<std::int32_t> tokens;  ///< all of the model's vocabulary; empty: nothing ends a text
  std::string note;                  ///< what the user should know of them; empty: nothing
};

/// As transformers: those that the model's files name (model_source::end_tokens), else the
/// tokenizer's end-of-text token.
[[nodiscard]] text_ends text_ends_of(model_source const& source, tokenizer const& words);

}  // namespace mpt
