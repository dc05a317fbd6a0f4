// Floats as sums of bf16, and tiles of operands: exact, at any location.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/host/detail/bf16_parts.hpp>

namespace bf16_parts_test {

namespace detail = parallel::host::detail;
namespace simd = parallel::host::simd;
using detail::bf16_pair;
using parallel::bf16;
using parallel::index;

std::size_t as_size(index i) { return static_cast<std::size_t>(i); }

/// The parts of one float.
std::vector<float> parts_of(float x) {
  detail::bf16_parts<float> const parts{simd::pack<float, 16>(x)};
  std::vector<float> out;
  for (auto const& part : parts.part) out.push_back(part.v[3]);
  return out;
}

TEST_CASE("bf16_parts: a float is the sum of its three parts, each of which is a bf16") {
  parallel::philox const random(3, 4);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    std::uint32_t const exponent = 127 - 110 + random.bits(2 * i) % (110 + 127);
    std::uint32_t const rest = random.bits(2 * i + 1) & 0x807fffffU;
    auto const x = std::bit_cast<float>(exponent << 23 | rest);
    auto const parts = parts_of(x);
    REQUIRE(parts.size() == 3);
    CHECK(parts[0] + (parts[1] + parts[2]) == x);
    CHECK(std::abs(parts[1]) <= std::ldexp(std::abs(parts[0]), -8));
    CHECK(std::abs(parts[2]) <= std::ldexp(std::abs(parts[0]), -16));
    for (float const part : parts) CHECK((std::bit_cast<std::uint32_t>(part) & 0xffffU) == 0);
  }
  CHECK(parts_of(0.0F) == std::vector<float>(3, 0.0F));
}

TEST_CASE("bf16_parts: infinity and NaN never become finite") {
  using limits = std::numeric_limits<float>;
  for (float const x : {limits::infinity(), -limits::infinity(), limits::quiet_NaN(),
                        std::bit_cast<float>(0x7fffffffU), std::bit_cast<float>(0xff800001U)}) {
    auto const parts = parts_of(x);
    CHECK(std::isnan(parts[0] + parts[1] + parts[2]));
  }
}

/// Element (width, depth) of a matrix whose elements are all different numbers of 24 bits.
template <class T>
T element(index width, index depth) {
  auto const number = static_cast<float>(width * 64 + depth + 1);
  return std::is_same_v<T, float> ? T(number + number * 0x1p-13F)
                                  : T(static_cast<float>(width + depth));
}

template <class T>
void check_tile(bool left, bool by_depth, index width, index depth) {
  CAPTURE(left);
  CAPTURE(by_depth);
  CAPTURE(width);
  CAPTURE(depth);
  constexpr int parts = detail::parts_of<T>;
  index const line = (by_depth ? depth : width) + 3;  // no padding after the last line
  index const lines = by_depth ? width : depth;
  std::vector<T> stored(as_size(lines == 0 ? 0 : (lines - 1) * line + (by_depth ? depth : width)),
                        T(999.0F));
  for (index w = 0; w < width; ++w)
    for (index d = 0; d < depth; ++d)
      stored[as_size(by_depth ? w * line + d : d * line + w)] = element<T>(w, d);
  constexpr index apart = detail::tile_pairs + 16;
  std::vector<bf16_pair> tiles(as_size(parts * apart), 0x12345678U);
  detail::tile_source<T> const from{.data = stored.data(),
                                    .width_stride = by_depth ? line : 1,
                                    .depth_stride = by_depth ? 1 : line,
                                    .width = width,
                                    .depth = depth};
  if (left)
    detail::pack_tile<true>(tiles.data(), apart, from);
  else
    detail::pack_tile<false>(tiles.data(), apart, from);
  for (index w = 0; w < 16; ++w)
    for (index d = 0; d < 32; ++d) {
      float sum = 0;
      for (index p = parts; p-- > 0;) {
        auto const pair = tiles[as_size(p * apart + (left ? w * 16 + d / 2 : d / 2 * 16 + w))];
        sum += std::bit_cast<float>(d % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
      }
      CHECK(sum == (w < width && d < depth ? static_cast<float>(element<T>(w, d)) : 0.0F));
    }
  for (index p = 0; p < parts; ++p)
    for (index i = detail::tile_pairs; i < apart; ++i)
      CHECK(tiles[as_size(p * apart + i)] == 0x12345678U);
}

TEST_CASE_TEMPLATE(
    "pack_tile: tiles hold the elements of an operand in both orders, and zeros elsewhere", T,
    float, bf16) {
  for (bool const left : {false, true})
    for (bool const by_depth : {false, true})
      for (auto const& [width, depth] :
           {std::pair<index, index>{16, 32}, {16, 31}, {15, 32}, {5, 7}, {1, 17}, {16, 1}, {0, 32}})
        check_tile<T>(left, by_depth, width, depth);
}

}  // namespace bf16_parts_test
