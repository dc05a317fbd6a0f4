// GPT-2's split of text into words, as a hand-written scanner.
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The alternatives are tried in this order at every place, each greedy. Because the four classes
// cover all characters, the next word follows from the class of the character here (or behind one
// leading space), and only white space needs a look ahead: a run of it that is followed by
// something leaves its last character for the next word (`\s+(?!\S)`), unless it is that one
// character. Words are views into the text, in order, without gaps. Cost: each character is classed
// once or twice. Paper: Radford et al., "Language Models are Unsupervised Multitask Learners"
// (2019).
#pragma once

#include <cstddef>
#include <string_view>

namespace mpt {

/// The end of the word that begins at `place` of valid UTF-8; always greater than `place`.
[[nodiscard]] std::size_t end_of_word(std::string_view text, std::size_t place);

/// Calls `visit(std::string_view word)` for every word of valid UTF-8, in order.
template <class Visitor>
void split_words(std::string_view text, Visitor&& visit) {
  for (std::size_t place = 0; place < text.size();) {
    auto const end = end_of_word(text, place);
    visit(text.substr(place, end - place));
    place = end;
  }
}

}  // namespace mpt
