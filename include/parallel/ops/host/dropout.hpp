// dropout on the host: Philox4x32-10 in vectors, one block a lane. The same bits as
// parallel::philox, so the same elements are dropped as on any other device.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/dropout.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/elementwise.hpp>
#include <parallel/ops/reference/dropout.hpp>

namespace parallel::host {

namespace detail {

/// What a parallel::philox is made of: the key's two words, the stream and the step.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox_words(philox const& random) {
  return std::bit_cast<std::array<std::uint32_t, 4>>(random);
}
static_assert(philox_words(philox(0x0000000200000001U, 3U, 4U)) ==
              std::array<std::uint32_t, 4>{1, 2, 3, 4});

/// Lanes of a and b in turn: those with index begin, begin + step, ... of each, a first.
template <int Lanes, int Begin, int Step>
[[gnu::always_inline]] inline simd::pack<std::uint32_t, Lanes> in_turn(
    simd::pack<std::uint32_t, Lanes> const& a, simd::pack<std::uint32_t, Lanes> const& b) {
  return [&]<int... Lane>(std::integer_sequence<int, Lane...>) __attribute__((always_inline)) {
    simd::pack<std::uint32_t, Lanes> out;
    out.v = __builtin_shufflevector(a.v, b.v, (Lane % 2 * Lanes + Begin + Lane / 2 * Step)...);
    return out;
  }
  (std::make_integer_sequence<int, Lanes>{});
}

/// The low and the high words of a * factor. Even lanes and odd lanes are multiplied apart, as
/// 64-bit numbers in registers of the same size: nothing has to be widened.
template <int Lanes>
[[gnu::always_inline]] inline void multiply(simd::pack<std::uint32_t, Lanes>& low,
                                            simd::pack<std::uint32_t, Lanes>& high,
                                            simd::pack<std::uint32_t, Lanes> const& a,
                                            std::uint64_t factor) {
  using wide = simd::pack<std::uint64_t, Lanes / 2>;
  using narrow = simd::pack<std::uint32_t, Lanes>;
  auto const pairs = reinterpret_cast<typename wide::raw>(a.v);
  narrow even;
  narrow odd;
  even.v = reinterpret_cast<typename narrow::raw>((pairs & 0xffffffffU) * factor);
  odd.v = reinterpret_cast<typename narrow::raw>((pairs >> 32) * factor);
  low = in_turn<Lanes, 0, 2>(even, odd);
  high = in_turn<Lanes, 1, 2>(even, odd);
}

/// The random words of elements [4 counter, 4 counter + 4 Lanes), in their order, to `to`.
template <int Lanes>
[[gnu::always_inline]] inline void philox_block(std::uint32_t* to, std::uint64_t counter,
                                                std::array<std::uint32_t, 4> const& words) {
  using word_pack = simd::pack<std::uint32_t, Lanes>;
  auto const first = static_cast<std::uint32_t>(counter);
  auto c0 = broadcast<Lanes>(first);
  auto c1 = broadcast<Lanes>(static_cast<std::uint32_t>(counter >> 32));
  auto c2 = broadcast<Lanes>(words[2]);
  auto c3 = broadcast<Lanes>(words[3]);
  for (int lane = 0; lane < Lanes; ++lane) c0.v[lane] += static_cast<std::uint32_t>(lane);
  // a carry into the upper word, in the lanes beyond 2^32
  c1.v += c0.v < broadcast<Lanes>(first).v ? word_pack(1U).v : word_pack(0U).v;
  auto key0 = broadcast<Lanes>(words[0]);
  auto key1 = broadcast<Lanes>(words[1]);
  for (int round = 0; round < 10; ++round) {
    word_pack low0;
    word_pack high0;
    word_pack low1;
    word_pack high1;
    multiply<Lanes>(low0, high0, c0, 0xD2511F53U);
    multiply<Lanes>(low1, high1, c2, 0xCD9E8D57U);
    c0.v = high1.v ^ c1.v ^ key0.v;
    c2.v = high0.v ^ c3.v ^ key1.v;
    c1 = low1;
    c3 = low0;
    key0.v += 0x9E3779B9U;
    key1.v += 0xBB67AE85U;
  }
  // from four words of each block apart to the blocks one after the other
  constexpr int half = Lanes / 2;
  auto const even_low = in_turn<Lanes, 0, 1>(c0, c2);
  auto const odd_low = in_turn<Lanes, 0, 1>(c1, c3);
  auto const even_high = in_turn<Lanes, half, 1>(c0, c2);
  auto const odd_high = in_turn<Lanes, half, 1>(c1, c3);
  word_pack const ordered[4] = {
      in_turn<Lanes, 0, 1>(even_low, odd_low), in_turn<Lanes, half, 1>(even_low, odd_low),
      in_turn<Lanes, 0, 1>(even_high, odd_high), in_turn<Lanes, half, 1>(even_high, odd_high)};
  __builtin_memcpy(to, ordered, sizeof ordered);
}

/// y = x * factor where the element's uniform number is >= p, else 0, for [begin, end).
template <int Lanes, class T>
[[gnu::always_inline]] inline void drop(T* to, T const* from, index begin, index end, float p,
                                        float factor, std::uint64_t first,
                                        std::array<std::uint32_t, 4> const& words) {
  using floats = simd::pack<float, Lanes>;
  std::uint32_t random[5 * Lanes] = {};  // 4 Lanes words; the rest may be read, never used
  for (index i = begin; i < end;) {
    auto const element = first + static_cast<std::uint64_t>(i);
    auto const skip = static_cast<index>(element & 3U);
    philox_block<Lanes>(random, element >> 2, words);
    index const count = std::min<index>(4 * Lanes - skip, end - i);
    for (index k = 0; k < count; k += Lanes) {
      simd::pack<std::int32_t, Lanes> word;
      __builtin_memcpy(&word.v, random + skip + k, sizeof word.v);
      word.v = (word.v >> 9) & 0x7fffff;
      floats uniform;
      uniform.v = __builtin_convertvector(word.v, typename floats::raw);
      uniform = (uniform + 0.5F) * (1.0F / 8388608.0F);  // exact
      floats const value =
          simd::load_partial<Lanes>(from + i + k, count - k) * broadcast<Lanes>(factor);
      simd::store_partial(
          to + i + k, simd::select(uniform < broadcast<Lanes>(p), floats(0.0F), value), count - k);
    }
    i += count;
  }
}

}  // namespace detail

template <class T>
void dropout_impl(stream& s, std::span<T> y, std::span<T const> x, ops::dropout_options options) {
  if (options.probability == 0.0F) return copy_impl(s, y, x);
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      float const p = options.probability;
      float const factor = p < 1.0F ? 1.0F / (1.0F - p) : 0.0F;
      auto const words = detail::philox_words(options.random);
      parallel_for(threads, std::ssize(y), block_elements, [&](index begin, index end) {
        simd::dispatch(
            [&, to = y.data(), from = x.data() ](auto lanes) __attribute__((always_inline)) {
              detail::drop<lanes>(to, from, begin, end, p, factor, options.first_element, words);
            });
      });
    } else {
      reference::stream here;
      ops::dropout(here, y, x, options);
    }
  });
}

}  // namespace parallel::host
