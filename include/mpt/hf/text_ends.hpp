// The tokens that end a text that a model generates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

struct text_ends {
  std::vector<std::int32_t> tokens;  ///< each in the model's vocabulary; empty: nothing ends a text
  std::string note;                  ///< a note for the user; empty: none
};

/// The end tokens as transformers finds them: those that the model's files name
/// (model_source::end_tokens), else the tokenizer's end-of-text token.
[[nodiscard]] text_ends text_ends_of(model_source const& source, tokenizer const& tokenizer);

}  // namespace mpt
