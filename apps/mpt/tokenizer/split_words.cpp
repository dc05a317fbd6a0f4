#include <mpt/tokenizer/split_words.hpp>

#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

struct classed {
  character_class kind;
  std::size_t bytes;
};

/// The class of the character at `place`, which must lie inside valid UTF-8.
[[nodiscard]] classed class_at(std::string_view text, std::size_t place) {
  auto const byte = static_cast<unsigned char>(text[place]);
  if (byte < 0x80) return {detail::ascii_classes[byte], 1};
  auto const next = utf8::read(text, place);
  return {class_of(next.code_point), next.bytes};
}

/// The end of the run of characters of class `kind` that begins at `place`.
[[nodiscard]] std::size_t end_of_run(std::string_view text, std::size_t place,
                                     character_class kind) {
  while (place < text.size()) {
    auto const here = class_at(text, place);
    if (here.kind != kind) break;
    place += here.bytes;
  }
  return place;
}

/// The length of 's, 't, 're, 've, 'm, 'll or 'd at `place`, else 0.
[[nodiscard]] std::size_t contraction_at(std::string_view text, std::size_t place) {
  if (text[place] != '\'' || place + 1 == text.size()) return 0;
  char const a = text[place + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (place + 2 == text.size()) return 0;
  char const b = text[place + 2];
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace

std::size_t end_of_word(std::string_view text, std::size_t place) {
  if (auto const length = contraction_at(text, place); length != 0) return place + length;
  auto const here = class_at(text, place);
  if (here.kind != character_class::space) return end_of_run(text, place + here.bytes, here.kind);
  if (text[place] == ' ' && place + 1 < text.size()) {
    auto const next = class_at(text, place + 1);
    if (next.kind != character_class::space)
      return end_of_run(text, place + 1 + next.bytes, next.kind);
  }
  std::size_t last = place;  // where the last white-space character of the run begins
  std::size_t end = place + here.bytes;
  while (end < text.size()) {
    auto const next = class_at(text, end);
    if (next.kind != character_class::space) return last == place ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

}  // namespace mpt
