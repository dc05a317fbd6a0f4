#include <mpt/tokenizer/split_words.hpp>

#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

struct classified_character {
  character_class kind;
  std::size_t bytes;
};

/// The class of the character at `position`, which must lie inside valid UTF-8.
[[nodiscard]] classified_character class_at(std::string_view text, std::size_t position) {
  auto const byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {detail::ascii_classes[byte], 1};
  auto const next = utf8::read(text, position);
  return {class_of(next.code_point), next.bytes};
}

/// The end of the run of characters of class `kind` that begins at `position`.
[[nodiscard]] std::size_t end_of_run(std::string_view text, std::size_t position,
                                     character_class kind) {
  while (position < text.size()) {
    auto const current = class_at(text, position);
    if (current.kind != kind) break;
    position += current.bytes;
  }
  return position;
}

/// The length of 's, 't, 're, 've, 'm, 'll or 'd at `position`, else 0.
[[nodiscard]] std::size_t contraction_at(std::string_view text, std::size_t position) {
  if (text[position] != '\'' || position + 1 == text.size()) return 0;
  char const a = text[position + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (position + 2 == text.size()) return 0;
  char const b = text[position + 2];
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace

std::size_t end_of_word(std::string_view text, std::size_t position) {
  if (auto const length = contraction_at(text, position); length != 0) return position + length;
  auto const first = class_at(text, position);
  if (first.kind != character_class::space)
    return end_of_run(text, position + first.bytes, first.kind);
  if (text[position] == ' ' && position + 1 < text.size()) {
    auto const next = class_at(text, position + 1);
    if (next.kind != character_class::space)
      return end_of_run(text, position + 1 + next.bytes, next.kind);
  }
  std::size_t last = position;  // start of the last white-space character of the run
  std::size_t end = position + first.bytes;
  while (end < text.size()) {
    auto const next = class_at(text, end);
    if (next.kind != character_class::space) return last == position ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

}  // namespace mpt
