// GPT-2's split of text into words, as a hand-written scanner.
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The alternatives are tried in this order at every position, each greedy. Because the four classes
// cover all characters, the next word follows from the class of the next character (or of the
// character after one leading space). Only white space needs look-ahead: a run of several white
// space characters before other text leaves its last character to the next word (`\s+(?!\S)`).
// Words are views into the text, in order, without gaps. Cost: each character is classified once or
// twice. Paper: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
#pragma once

#include <cstddef>
#include <string_view>

namespace mpt {

/// The end of the word that begins at `position` of valid UTF-8; always greater than `position`.
[[nodiscard]] std::size_t end_of_word(std::string_view text, std::size_t position);

/// Calls `visit(std::string_view word)` for every word of valid UTF-8, in order.
template <class Visitor>
void split_words(std::string_view text, Visitor&& visit) {
  for (std::size_t position = 0; position < text.size();) {
    auto const end = end_of_word(text, position);
    visit(text.substr(position, end - position));
    position = end;
  }
}

}  // namespace mpt
