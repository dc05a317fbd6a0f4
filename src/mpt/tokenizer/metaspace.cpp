#include <mpt/tokenizer/metaspace.hpp>

#include <algorithm>

namespace mpt::metaspace {
namespace {

[[nodiscard]] std::string replaced(std::string_view text, std::string_view from,
                                   std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (std::size_t position = 0; position < text.size();) {
    auto const found = std::min(text.find(from, position), text.size());
    out += text.substr(position, found - position);
    if (found == text.size()) break;
    out += to;
    position = found + from.size();
  }
  return out;
}

/// The value of a hexadecimal digit, or -1.
[[nodiscard]] int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string spell(std::string_view text) { return replaced(text, " ", mark); }

std::string read(std::string_view token) { return replaced(token, mark, " "); }

std::optional<unsigned char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int const high = hexadecimal(token[3]);
  int const low = hexadecimal(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string byte_token(unsigned char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
}

bool joins_words(std::string_view token) {
  return !token.empty() && end_of_word(token, 0, true) < token.size();
}

std::size_t end_of_word(std::string_view text, std::size_t position, bool runs) {
  auto begin = position;
  if (runs)
    while (text.substr(begin).starts_with(mark)) begin += mark.size();
  else if (text.substr(begin).starts_with(mark))
    begin += mark.size();
  return std::min(text.find(mark, begin), text.size());
}

}  // namespace mpt::metaspace
