// The Python str methods on which LLM Foundry's prompts and scores depend.
#pragma once

#include <string>
#include <string_view>

#include <mpt/tokenizer/character_class.hpp>

namespace mpt::eval {

/// str.isspace() of one character: Unicode's white space and the four ASCII separators.
[[nodiscard]] constexpr bool is_python_space(char32_t c) {
  return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

/// str.rstrip().
[[nodiscard]] std::string_view rstrip(std::string_view text);

/// str.strip().
[[nodiscard]] std::string_view strip(std::string_view text);

/// Normalises an answer as TriviaQA's official evaluation does (Joshi et al., 2017): lower case,
/// without punctuation and articles, words separated by one space. Each character is converted to
/// lower case by itself, so a final Greek sigma is not distinguished.
[[nodiscard]] std::string normalise_answer(std::string_view answer);

}  // namespace mpt::eval
