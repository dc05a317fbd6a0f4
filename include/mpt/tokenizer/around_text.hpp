// What a tokenizer puts around a text when it is asked to, as transformers' AutoTokenizer does: the
// ids that tokenizer.json's post_processor names (a beginning-of-text token, for example), or for
// GPT-NeoX's class those that tokenizer_config.json asks for. `tokenizer::encode` never adds them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

struct around_text {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

/// What the tokenizer's files put around a text. Throws for a post_processor that is not
/// understood.
[[nodiscard]] around_text read_around_text(tokenizer const& words);

/// The ids of `text` with what is around it.
[[nodiscard]] std::vector<std::int32_t> encode_with(around_text const& around,
                                                    tokenizer const& words, std::string_view text);

}  // namespace mpt
