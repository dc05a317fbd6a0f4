#include <mpt/console/plain_text.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt::console {

namespace {

bool is_obeyed(char32_t c) {
  bool const is_control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
  bool const ends_line = c == 0x2028 || c == 0x2029;
  bool const turns_direction = c == 0x61c || c == 0x200e || c == 0x200f ||
                               (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return is_control || ends_line || turns_direction;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    auto const c = utf8::read(text, i);
    utf8::append(out, is_obeyed(c.code_point) ? U'\uFFFD' : c.code_point);
    i += c.bytes;
  }
  return out;
}

std::string plain_line(std::string_view text) {
  auto out = plain_text(text);
  std::ranges::replace_if(
      out, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return out;
}

}  // namespace mpt::console
