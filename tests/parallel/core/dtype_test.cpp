#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include <parallel/core/dtype.hpp>

namespace dtype_test {
namespace {

using parallel::bf16;
using parallel::dtype;

float widened(std::uint32_t bits) { return std::bit_cast<float>(bits << 16); }

std::uint32_t narrowed(float value) { return bf16(value).bits; }

TEST_CASE("bf16: every value is equal after conversion to float and back") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    float const wide = value;
    if (std::isnan(wide))
      wrong += narrowed(wide) == 0x7fffU ? 0 : 1;  // the NaN of GPUs
    else
      wrong += narrowed(wide) == bits && wide == widened(bits) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("bf16: floats round to the nearest value, ties to even") {
  int wrong = 0;
  for (std::uint32_t sign : {0U, 0x8000U}) {
    for (std::uint32_t magnitude = 0; magnitude < 0x7f7fU; ++magnitude) {  // below the largest
      std::uint32_t const low = sign | magnitude;
      std::uint32_t const high = low + 1;
      std::uint32_t const tie = low << 16 | 0x8000U;
      // the tie is exactly in the middle, in exact arithmetic
      double const middle = 0.5 * (double{widened(low)} + double{widened(high)});
      wrong += double{std::bit_cast<float>(tie)} == middle ? 0 : 1;
      wrong += narrowed(std::bit_cast<float>(tie)) == (low % 2 == 0 ? low : high) ? 0 : 1;
      wrong += narrowed(std::bit_cast<float>(tie - 1)) == low ? 0 : 1;
      wrong += narrowed(std::bit_cast<float>(tie + 1)) == high ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("bf16: floats beyond the largest value round to infinity, as IEEE requires") {
  float const largest = widened(0x7f7fU);
  CHECK(narrowed(largest) == 0x7f7fU);
  CHECK(narrowed(std::bit_cast<float>(0x7f7f7fffU)) == 0x7f7fU);  // just under the half way
  CHECK(narrowed(std::bit_cast<float>(0x7f7f8000U)) == 0x7f80U);  // half way: to even, infinity
  CHECK(narrowed(std::numeric_limits<float>::max()) == 0x7f80U);
  CHECK(narrowed(-std::numeric_limits<float>::max()) == 0xff80U);
  CHECK(narrowed(std::numeric_limits<float>::infinity()) == 0x7f80U);
  CHECK(narrowed(-0.0F) == 0x8000U);
}

TEST_CASE("bf16: a NaN with its payload in the truncated bits stays NaN") {
  int wrong = 0;
  for (std::uint32_t payload = 1; payload < 0x10000U; ++payload)
    for (std::uint32_t const top : {0x7f800000U, 0xff800000U}) {
      bf16 const value(std::bit_cast<float>(top | payload));
      wrong += std::isnan(static_cast<float>(value)) ? 0 : 1;
    }
  CHECK(wrong == 0);
}

TEST_CASE("dtype: size, name and accumulation type of the element types") {
  CHECK(parallel::size_of(parallel::dtype_of<bf16>) == sizeof(bf16));
  CHECK(parallel::size_of(parallel::dtype_of<float>) == sizeof(float));
  CHECK(parallel::size_of(parallel::dtype_of<double const>) == sizeof(double));
  CHECK(parallel::size_of(parallel::dtype_of<std::byte>) == 1);
  CHECK(parallel::size_of(parallel::dtype_of<std::int32_t>) == 4);
  CHECK(parallel::size_of(parallel::dtype_of<std::int64_t>) == 8);
  CHECK(parallel::size_of(parallel::dtype_of<std::uint64_t>) == 8);
  CHECK(parallel::size_of(dtype::f16) == 2);
  CHECK(parallel::to_string(dtype::u8) == "u8");
  CHECK(parallel::to_string(dtype::bf16) == "bf16");
  CHECK(parallel::to_string(dtype::f64) == "f64");
  static_assert(std::is_same_v<parallel::accumulate_t<bf16>, float>);
  static_assert(std::is_same_v<parallel::accumulate_t<float const>, float>);
  static_assert(std::is_same_v<parallel::accumulate_t<std::uint64_t>, std::uint64_t>);
  static_assert(std::is_trivially_copyable_v<bf16> && sizeof(bf16) == 2);
}

}  // namespace
}  // namespace dtype_test
