// The special tokens that a tokenizer adds before and after a text, as transformers' AutoTokenizer
// does by default: those named by tokenizer.json's post_processor (a beginning-of-text token, for
// example), or those that add_bos_token and add_eos_token of tokenizer_config.json ask for, where
// the tokenizer's class reads these (auto_tokenizer.hpp).
// `tokenizer::encode` never adds them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

struct text_affixes {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
};

/// The affixes that the tokenizer's files name. Throws for a post_processor of unknown form.
[[nodiscard]] text_affixes read_text_affixes(tokenizer const& tokenizer);

/// The ids of `text` between the affixes.
[[nodiscard]] std::vector<std::int32_t> encode_with_affixes(text_affixes const& affixes,
                                                            tokenizer const& tokenizer,
                                                            std::string_view text);

}  // namespace mpt
