// sample_prompts: the prompts of a generate_callback as token ids.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mpt {

/// read_sample_prompts makes it.
struct sample_prompts {
  std::vector<std::vector<std::int32_t>> ids;  ///< the ids of each prompt
  std::vector<std::int32_t> end_tokens;        ///< tokens that end a text; may be empty
  std::int64_t tokens = 0;                     ///< the number of tokens of the tokenizer
  /// Returns the text of ids of the tokenizer, without special tokens.
  std::function<std::string(std::span<std::int32_t const>)> text_of;
};

}  // namespace mpt
