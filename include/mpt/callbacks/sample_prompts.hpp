// sample_prompts: the prompts of a generate_callback, as the model reads them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mpt {

/// Made by read_sample_prompts.
struct sample_prompts {
  std::vector<std::vector<std::int32_t>> ids;  ///< of each prompt
  std::vector<std::int32_t> end_tokens;        ///< that end what is written; may be empty
  std::int64_t tokens = 0;                     ///< that the tokenizer has
  /// The text of ids that it has, without special tokens.
  std::function<std::string(std::span<std::int32_t const>)> text_of;
};

}  // namespace mpt
