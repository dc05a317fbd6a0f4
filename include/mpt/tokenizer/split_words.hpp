// The split of text into words before BPE, by hand-written scanners of the patterns in use.
//
// A tokenizer.json names its pattern as a regular expression, which `find_word_pattern` recognises
// by its exact text. The alternatives of a pattern are tried in their order at every position, each
// greedy. Because the classes of characters (letter, number, white space, other) cover all
// characters, the alternative that matches follows from the next character, or from the character
// after one that may stand in front of a word. White space alone needs look-ahead: a run of several
// white space characters before other text leaves its last character to the next word
// (`\s+(?!\S)`). GPT-4o's and Tekken's words end where capitals follow small letters, so that the
// end of the letters is known only after the run of capitals and caseless letters.
// Words are views into the text, in order, without gaps. Cost: each character is classified once or
// twice.
// Papers: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), for GPT-2's
// pattern; Dubey et al., "The Llama 3 Herd of Models" (2024), section 3.2.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mpt {

/// The patterns that are known, by the tokenizer that introduced them.
enum class word_pattern : std::uint8_t {
  gpt2,     ///< GPT-NeoX's, MPT's and OLMo's as well
  llama3,   ///< GPT-4's as well: numbers of at most three digits
  qwen2,    ///< Qwen2 to Qwen3: every digit is a word
  qwen3_5,  ///< as qwen2, but combining marks are parts of words
  gpt4o,    ///< Llama 4's as well: words end before capitals
  tekken,   ///< Mistral NeMo's and later: as gpt4o without contractions, every digit is a word
};

/// The pattern with this regular expression; nullopt if no scanner knows it.
[[nodiscard]] std::optional<word_pattern> find_word_pattern(std::string_view regular_expression);

/// The regular expression of a pattern.
[[nodiscard]] std::string_view regular_expression_of(word_pattern pattern);

/// The names of all patterns, for messages.
[[nodiscard]] std::string_view word_pattern_names();

/// The end of the word that begins at `position` of valid UTF-8; always greater than `position`.
[[nodiscard]] std::size_t end_of_word(std::string_view text, std::size_t position,
                                      word_pattern pattern);

/// Calls `visit(std::string_view word)` for every word of valid UTF-8, in order.
template <class Visitor>
void split_words(std::string_view text, word_pattern pattern, Visitor&& visit) {
  for (std::size_t position = 0; position < text.size();) {
    auto const end = end_of_word(text, position, pattern);
    visit(text.substr(position, end - position));
    position = end;
  }
}

}  // namespace mpt
