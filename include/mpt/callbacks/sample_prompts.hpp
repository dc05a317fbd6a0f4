// sample_prompts: the prompts of a generate_callback as token ids, read before any rank trains.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>

namespace mpt {

/// read_sample_prompts makes it.
struct sample_prompts {
  std::vector<std::vector<std::int32_t>> ids;  ///< the ids of each prompt
  std::vector<std::int32_t> end_tokens;        ///< tokens that end a text; may be empty
  std::int64_t tokens = 0;                     ///< the number of tokens of the tokenizer
  /// Returns the text of ids of the tokenizer, without special tokens.
  std::function<std::string(std::span<std::int32_t const>)> decode;
};

/// The prompts of a configuration that has a generate_callback. Throws when the tokenizer does not
/// exist or has more tokens than the model, or a prompt is too long for the model.
[[nodiscard]] sample_prompts read_sample_prompts(model_config const& model, data_config const& data,
                                                 callbacks_config const& callbacks);

}  // namespace mpt
