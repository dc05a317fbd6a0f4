#include <array>
#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include <parallel/core/philox.hpp>

namespace philox_test {
namespace {

using words = std::array<std::uint32_t, 4>;

/// philox4x32 with its result as an array, for comparison.
words block(words counter, std::array<std::uint32_t, 2> key) {
  auto const out =
      parallel::philox4x32({counter[0], counter[1], counter[2], counter[3]}, {key[0], key[1]});
  return {out[0], out[1], out[2], out[3]};
}

TEST_CASE("philox: philox4x32-10 gives the published known answers") {
  // Random123 1.14, tests/kat_vectors
  CHECK(block({0, 0, 0, 0}, {0, 0}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(block({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: can be evaluated at compile time") {
  static_assert(parallel::philox(0, 0).bits(0) == 0x6627e8d5);
  static_assert(parallel::philox(0, 0).bits(3) == 0x9b00dbd8);
  static_assert(parallel::stream_id("") == 2166136261U);
  static_assert(parallel::stream_id("a") == 0xe40c292cU);  // FNV-1a's published test vector
}

TEST_CASE("philox: a number depends on seed, stream, step and the whole element index") {
  parallel::philox const random(0x123456789abcdefU, 7, 11);
  std::uint64_t const far = std::uint64_t{1} << 40;
  CHECK(random.bits(5) == parallel::philox(0x123456789abcdefU, 7, 11).bits(5));
  CHECK(random.bits(5) != parallel::philox(0x123456789abcdeeU, 7, 11).bits(5));
  CHECK(random.bits(5) != parallel::philox(0x023456789abcdefU, 7, 11).bits(5));
  CHECK(random.bits(5) != parallel::philox(0x123456789abcdefU, 8, 11).bits(5));
  CHECK(random.bits(5) != parallel::philox(0x123456789abcdefU, 7, 12).bits(5));
  CHECK(random.bits(5) != random.bits(5 + far));
  // the counter is (block, stream, step), the key the seed
  CHECK(random.bits(far + 6) == block({static_cast<std::uint32_t>((far + 6) >> 2),
                                       static_cast<std::uint32_t>((far + 6) >> 34), 7, 11},
                                      {0x89abcdefU, 0x01234567U})[2]);
}

TEST_CASE("philox: uniform numbers are in (0, 1) and have the distribution's moments") {
  parallel::philox const random(42, parallel::stream_id("uniform"));
  constexpr int count = 400000;
  double sum = 0.0;
  double squares = 0.0;
  float smallest = 1.0F;
  float greatest = 0.0F;
  for (std::uint64_t i = 0; i < count; ++i) {
    float const u = random.uniform(i);
    smallest = std::fmin(smallest, u);
    greatest = std::fmax(greatest, u);
    sum += u;
    squares += double{u} * double{u};
  }
  CHECK(smallest > 0.0F);
  CHECK(greatest < 1.0F);
  double const mean = sum / count;
  CHECK(std::fabs(mean - 0.5) < 5.0 * std::sqrt(1.0 / 12.0 / count));
  CHECK(std::fabs(squares / count - 1.0 / 3.0) < 5.0 * std::sqrt(4.0 / 45.0 / count));
}

TEST_CASE("philox: normal numbers have the first four moments of the distribution") {
  parallel::philox const random(43, parallel::stream_id("normal"));
  constexpr int count = 400000;
  std::array<double, 4> sums{};
  double neighbours = 0.0;  // elements 2i and 2i+1 come from one pair and must not be correlated
  for (std::uint64_t i = 0; i < count; ++i) {
    double const z = random.normal(i);
    double power = 1.0;
    for (double& sum : sums) sum += power *= z;
    if (i % 2 == 1) neighbours += z * static_cast<double>(random.normal(i - 1));
  }
  // standard errors: Var(z^k) is 1, 2, 15, 96 for k = 1, 2, 3, 4
  CHECK(std::fabs(sums[0] / count) < 5.0 * std::sqrt(1.0 / count));
  CHECK(std::fabs(sums[1] / count - 1.0) < 5.0 * std::sqrt(2.0 / count));
  CHECK(std::fabs(sums[2] / count) < 5.0 * std::sqrt(15.0 / count));
  CHECK(std::fabs(sums[3] / count - 3.0) < 5.0 * std::sqrt(96.0 / count));
  CHECK(std::fabs(neighbours / (count / 2.0)) < 5.0 * std::sqrt(2.0 / count));
}

}  // namespace
}  // namespace philox_test
