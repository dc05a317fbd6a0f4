// The spelling of bytes in byte-level BPE: each of the 256 bytes as one printable character.
//
// Printable Latin-1 bytes stand for themselves; the 68 others (controls, space, 0x7F-0xA0, 0xAD)
// become U+0100, U+0101, ... in order, so a space is U+0120. Vocabulary files use this spelling. A
// token that holds any other character is no byte-level token; it is decoded to its own characters,
// as by the reference decoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt::byte_level {

/// The character that stands for each byte.
[[nodiscard]] constexpr std::array<char32_t, 256> make_spelling() {
  std::array<char32_t, 256> spelling{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    bool const printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    spelling[byte] = printable ? byte : next++;
  }
  return spelling;
}

/// The character that stands for each byte.
inline constexpr std::array<char32_t, 256> spelling = make_spelling();

/// The byte each character below U+0144 stands for, or -1.
[[nodiscard]] constexpr std::array<std::int16_t, 324> make_reading() {
  std::array<std::int16_t, 324> reading{};
  for (auto& byte : reading) byte = -1;
  for (std::size_t byte = 0; byte < 256; ++byte)
    reading[spelling[byte]] = static_cast<std::int16_t>(byte);
  return reading;
}

/// The byte each character below U+0144 stands for, or -1.
inline constexpr std::array<std::int16_t, 324> reading = make_reading();

/// Bytes in their printable spelling (" a" becomes "\u0120a").
[[nodiscard]] std::string spell(std::string_view bytes);

/// One byte in its printable spelling.
[[nodiscard]] std::string spell(unsigned char byte);

/// Whether a byte occurs in any UTF-8 text.
[[nodiscard]] constexpr bool occurs_in_utf8(std::size_t byte) {
  return byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4);
}

/// The bytes a token stands for; a token with a character that spells no byte stands for itself.
[[nodiscard]] std::string read(std::string_view token);

}  // namespace mpt::byte_level
