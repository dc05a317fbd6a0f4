#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include <parallel/core/hexadecimal.hpp>

namespace hexadecimal_test {

using parallel::hexadecimal;
using parallel::is_hexadecimal;
using parallel::parse_hexadecimal;

TEST_CASE("hexadecimal: numbers and bytes have all their digits, the most significant first") {
  CHECK(hexadecimal(std::uint64_t{0x0123456789abcdef}) == "0123456789abcdef");
  CHECK(hexadecimal(std::uint64_t{1}) == "0000000000000001");
  CHECK(hexadecimal(std::uint32_t{0xfedcba98}) == "fedcba98");
  CHECK(hexadecimal(std::array{std::byte{0x00}, std::byte{0x7f}, std::byte{0xf0}}) == "007ff0");
}

TEST_CASE("hexadecimal: text that is not all digits is told apart") {
  CHECK(is_hexadecimal("09af"));
  CHECK_FALSE(is_hexadecimal("09AF"));
  CHECK_FALSE(is_hexadecimal("g"));
  CHECK(parse_hexadecimal("0123456789ABCdef") == 0x0123456789abcdefU);
  CHECK_FALSE(parse_hexadecimal("123456789abcdef"));
  CHECK_FALSE(parse_hexadecimal("00123456789abcdef"));
  CHECK_FALSE(parse_hexadecimal("0x23456789abcdef"));
  CHECK_FALSE(parse_hexadecimal("-123456789abcdef"));
}

}  // namespace hexadecimal_test
