// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected), and its masked form in TFRecord files.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mpt {

namespace detail {

[[nodiscard]] constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}

}  // namespace detail

/// The CRC-32C of `bytes`. Cost: one table look-up per byte, fast enough for records of some
/// kilobytes.
[[nodiscard]] constexpr std::uint32_t crc32c(std::string_view bytes) {
  constexpr auto table = detail::crc32c_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (char const byte : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8);
  return crc ^ 0xFFFFFFFFU;
}

/// The masked CRC-32C that TFRecord stores, since a checksum of data that holds checksums is weak.
[[nodiscard]] constexpr std::uint32_t masked_crc32c(std::string_view bytes) {
  std::uint32_t const crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

}  // namespace mpt
