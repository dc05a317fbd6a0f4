#include <mpt/tokenizer/utf8.hpp>

#include <cstring>

namespace mpt::utf8 {

character read(std::string_view text, std::size_t position) {
  auto const byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  std::uint8_t const first = byte(position);
  if (first < 0x80) return {first, 1, status::valid};
  // Length and the range of the second byte (which rules out overlong forms, surrogates, > 10FFFF).
  std::uint32_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {0xFFFD, 1, status::invalid};
  }
  auto value = static_cast<char32_t>(first & (0xFFU >> (length + 1)));
  for (std::uint32_t i = 1; i < length; ++i) {
    if (position + i == text.size()) return {0xFFFD, i, status::incomplete};
    std::uint8_t const next = byte(position + i);
    if (next < low || next > high) return {0xFFFD, i, status::invalid};
    low = 0x80;
    high = 0xBF;
    value = (value << 6) | (next & 0x3FU);
  }
  return {value, length, status::valid};
}

void append(std::string& out, char32_t code_point) {
  auto const put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::size_t skip_ascii(std::string_view text, std::size_t position) {
  while (position + 8 <= text.size()) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + position, 8);
    if ((bytes & 0x8080808080808080U) != 0) break;
    position += 8;
  }
  while (position < text.size() && static_cast<std::uint8_t>(text[position]) < 0x80) ++position;
  return position;
}

bool is_valid(std::string_view text) {
  for (std::size_t position = skip_ascii(text, 0); position < text.size();) {
    auto const next = read(text, position);
    if (next.state != status::valid) return false;
    position += next.bytes;
    if (position < text.size() && static_cast<std::uint8_t>(text[position]) < 0x80)
      position = skip_ascii(text, position);
  }
  return true;
}

std::string lossy(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    auto const next = read(text, position);
    out += next.state == status::valid ? text.substr(position, next.bytes) : replacement;
    position += next.bytes;
  }
  return out;
}

}  // namespace mpt::utf8
