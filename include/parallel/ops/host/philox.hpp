// philox_lanes: Philox4x32-10 in SIMD registers, one block in each lane. Its bits are those of
// parallel::philox.
#pragma once

#include <cstdint>
#include <utility>

#include <parallel/core/philox.hpp>
#include <parallel/ops/host/blocks.hpp>

namespace parallel::host::detail {

/// Interleaves a and b, a first: their lanes Begin, Begin + Step, ...
template <int Lanes, int Begin, int Step>
[[gnu::always_inline]] inline simd::pack<std::uint32_t, Lanes> interleave(
    simd::pack<std::uint32_t, Lanes> const& a, simd::pack<std::uint32_t, Lanes> const& b) {
  return [&]<int... Lane>(std::integer_sequence<int, Lane...>) __attribute__((always_inline)) {
    simd::pack<std::uint32_t, Lanes> out;
    out.v = __builtin_shufflevector(a.v, b.v, (Lane % 2 * Lanes + Begin + Lane / 2 * Step)...);
    return out;
  }
  (std::make_integer_sequence<int, Lanes>{});
}

/// The low and the high words of a * factor. Even lanes and odd lanes are multiplied separately, as
/// 64-bit numbers in registers of the same size, so that nothing has to be widened.
template <int Lanes>
[[gnu::always_inline]] inline void multiply(simd::pack<std::uint32_t, Lanes>& low,
                                            simd::pack<std::uint32_t, Lanes>& high,
                                            simd::pack<std::uint32_t, Lanes> const& a,
                                            std::uint64_t factor) {
  using wide = simd::pack<std::uint64_t, Lanes / 2>;
  using narrow = simd::pack<std::uint32_t, Lanes>;
  auto const pairs = reinterpret_cast<typename wide::raw>(a.v);
  narrow even_lanes;
  narrow odd_lanes;
  even_lanes.v = reinterpret_cast<typename narrow::raw>((pairs & 0xffffffffU) * factor);
  odd_lanes.v = reinterpret_cast<typename narrow::raw>((pairs >> 32) * factor);
  low = interleave<Lanes, 0, 2>(even_lanes, odd_lanes);
  high = interleave<Lanes, 1, 2>(even_lanes, odd_lanes);
}

/// The four words of each lane's block, whose 64-bit counter has the words `low` and `high`.
template <int Lanes>
struct philox_lanes {
  using words = simd::pack<std::uint32_t, Lanes>;
  words c0, c1, c2, c3;

  [[gnu::always_inline]] philox_lanes(words const& low, words const& high, philox const& random)
      : c0(low),
        c1(high),
        c2(broadcast<Lanes>(random.stream())),
        c3(broadcast<Lanes>(random.step())) {
    auto const key = random.key();
    auto key0 = broadcast<Lanes>(key[0]);
    auto key1 = broadcast<Lanes>(key[1]);
    for (int round = 0; round < 10; ++round) {
      words low0;
      words high0;
      words low1;
      words high1;
      multiply<Lanes>(low0, high0, c0, 0xD2511F53U);
      multiply<Lanes>(low1, high1, c2, 0xCD9E8D57U);
      c0.v = high1.v ^ c1.v ^ key0.v;
      c2.v = high0.v ^ c3.v ^ key1.v;
      c1 = low1;
      c3 = low0;
      key0.v += 0x9E3779B9U;
      key1.v += 0xBB67AE85U;
    }
  }
};

/// Writes the random words of elements [4 counter, 4 counter + 4 Lanes), in order, to `to`.
template <int Lanes>
[[gnu::always_inline]] inline void philox_block(std::uint32_t* to, std::uint64_t counter,
                                                philox const& random) {
  using words = simd::pack<std::uint32_t, Lanes>;
  auto const first = broadcast<Lanes>(static_cast<std::uint32_t>(counter));
  words low = first;
  for (int lane = 0; lane < Lanes; ++lane) low.v[lane] += static_cast<std::uint32_t>(lane);
  // a carry into the upper word, in the lanes beyond 2^32
  words high = broadcast<Lanes>(static_cast<std::uint32_t>(counter >> 32));
  high.v += low.v < first.v ? words(1U).v : words(0U).v;
  philox_lanes<Lanes> const x(low, high, random);
  // reorders words from one register per word of a block to consecutive blocks
  constexpr int half = Lanes / 2;
  auto const even_low = interleave<Lanes, 0, 1>(x.c0, x.c2);
  auto const odd_low = interleave<Lanes, 0, 1>(x.c1, x.c3);
  auto const even_high = interleave<Lanes, half, 1>(x.c0, x.c2);
  auto const odd_high = interleave<Lanes, half, 1>(x.c1, x.c3);
  words const ordered[4] = {interleave<Lanes, 0, 1>(even_low, odd_low),
                            interleave<Lanes, half, 1>(even_low, odd_low),
                            interleave<Lanes, 0, 1>(even_high, odd_high),
                            interleave<Lanes, half, 1>(even_high, odd_high)};
  __builtin_memcpy(to, ordered, sizeof ordered);
}

/// Uniform numbers in (0, 1), as philox::uniform, from the words from[0, Lanes).
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> uniform_of(std::uint32_t const* from) {
  using floats = simd::pack<float, Lanes>;
  simd::pack<std::int32_t, Lanes> word;
  __builtin_memcpy(&word.v, from, sizeof word.v);
  word.v = (word.v >> 9) & 0x7fffff;
  floats uniform;
  uniform.v = __builtin_convertvector(word.v, typename floats::raw);
  return (uniform + 0.5F) * (1.0F / 8388608.0F);  // exact
}

}  // namespace parallel::host::detail
