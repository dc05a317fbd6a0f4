// The host's equivalents of GPU instructions.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <parallel/core/instructions.hpp>

namespace instructions_test {

using namespace parallel;

TEST_CASE("nearest_bf16: every NaN has the same bits, as on GPUs") {
  for (std::uint32_t const bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffc12345U})
    CHECK(nearest_bf16(std::bit_cast<float>(bits)) == 0x7fff);
}

TEST_CASE("nearest_bf16: rounds to nearest, ties to even, beyond the largest to infinity") {
  CHECK(nearest_bf16(1.0F) == 0x3f80);
  CHECK(nearest_bf16(std::bit_cast<float>(0x3f808000U)) == 0x3f80);
  CHECK(nearest_bf16(std::bit_cast<float>(0x3f808001U)) == 0x3f81);
  CHECK(nearest_bf16(std::bit_cast<float>(0x3f818000U)) == 0x3f82);
  CHECK(nearest_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(nearest_bf16(-std::numeric_limits<float>::infinity()) == 0xff80);
  CHECK(nearest_bf16(std::bit_cast<float>(1U)) == 0);  // the smallest positive number
}

TEST_CASE("fast_exp2, fast_reciprocal: powers of two and reciprocals") {
  CHECK(fast_exp2(3.0F) == 8.0F);
  CHECK(fast_exp2(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(fast_exp2(0.5F) == doctest::Approx(std::sqrt(2.0)).epsilon(1e-7));
  CHECK(fast_reciprocal(4.0F) == 0.25F);
  CHECK(std::isnan(fast_exp2(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace instructions_test
