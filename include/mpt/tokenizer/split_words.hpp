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

#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

#include <cstddef>
#include <string_view>

namespace mpt {

namespace detail {

struct classed {
  character_class kind;
  std::size_t bytes;
};

/// The class of the character at `place`, which must lie inside valid UTF-8.
[[nodiscard]] inline classed class_at(std::string_view text, std::size_t place) {
  auto const byte = static_cast<unsigned char>(text[place]);
  if (byte < 0x80) return {ascii_classes[byte], 1};
  auto const next = utf8::read(text, place);
  return {class_of(next.code_point), next.bytes};
}

/// The end of the run of characters of class `kind` that begins at `place`.
[[nodiscard]] inline std::size_t end_of_run(std::string_view text, std::size_t place,
                                            character_class kind) {
  while (place < text.size()) {
    auto const here = class_at(text, place);
    if (here.kind != kind) break;
    place += here.bytes;
  }
  return place;
}

/// The length of 's, 't, 're, 've, 'm, 'll or 'd at `place`, else 0.
[[nodiscard]] inline std::size_t contraction_at(std::string_view text, std::size_t place) {
  if (text[place] != '\'' || place + 1 == text.size()) return 0;
  char const a = text[place + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (place + 2 == text.size()) return 0;
  char const b = text[place + 2];
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace detail

/// The end of the word that begins at `place` of valid UTF-8; always greater than `place`.
[[nodiscard]] inline std::size_t end_of_word(std::string_view text, std::size_t place) {
  if (auto const length = detail::contraction_at(text, place); length != 0) return place + length;
  auto const here = detail::class_at(text, place);
  if (here.kind != character_class::space)
    return detail::end_of_run(text, place + here.bytes, here.kind);
  if (text[place] == ' ' && place + 1 < text.size()) {
    auto const next = detail::class_at(text, place + 1);
    if (next.kind != character_class::space)
      return detail::end_of_run(text, place + 1 + next.bytes, next.kind);
  }
  std::size_t last = place;  // where the last white-space character of the run begins
  std::size_t end = place + here.bytes;
  while (end < text.size()) {
    auto const next = detail::class_at(text, end);
    if (next.kind != character_class::space) return last == place ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

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
