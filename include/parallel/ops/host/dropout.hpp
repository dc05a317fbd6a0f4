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

/// a0, b0, a1, b1, ...
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<std::uint32_t, 2 * Lanes> interleave(
    simd::pack<std::uint32_t, Lanes> const& a, simd::pack<std::uint32_t, Lanes> const& b) {
  return [&]<int... Lane>(std::integer_sequence<int, Lane...>) __attribute__((always_inline)) {
    simd::pack<std::uint32_t, 2 * Lanes> out;
    out.v = __builtin_shufflevector(a.v, b.v, (Lane % 2 * Lanes + Lane / 2)...);
    return out;
  }
  (std::make_integer_sequence<int, 2 * Lanes>{});
}

/// The random words of elements [4 counter, 4 counter + 4 Lanes), in their order, to `to`.
template <int Lanes>
[[gnu::always_inline]] inline void philox_block(std::uint32_t* to, std::uint64_t counter,
                                                std::array<std::uint32_t, 4> const& words) {
  using narrow = simd::pack<std::uint32_t, Lanes>;
  using wide = simd::pack<std::uint64_t, Lanes>;
  wide counters(counter);
  for (int lane = 0; lane < Lanes; ++lane) counters.v[lane] += static_cast<std::uint64_t>(lane);
  narrow c0;
  narrow c1;
  narrow c2(words[2]);
  narrow c3(words[3]);
  c0.v = __builtin_convertvector(counters.v, typename narrow::raw);
  c1.v = __builtin_convertvector(counters.v >> 32, typename narrow::raw);
  std::uint32_t key0 = words[0];
  std::uint32_t key1 = words[1];
  for (int round = 0; round < 10; ++round) {
    wide product0;
    wide product1;
    product0.v = __builtin_convertvector(c0.v, typename wide::raw) * 0xD2511F53U;
    product1.v = __builtin_convertvector(c2.v, typename wide::raw) * 0xCD9E8D57U;
    c0.v = __builtin_convertvector(product1.v >> 32, typename narrow::raw) ^ c1.v ^ key0;
    c2.v = __builtin_convertvector(product0.v >> 32, typename narrow::raw) ^ c3.v ^ key1;
    c1.v = __builtin_convertvector(product1.v, typename narrow::raw);
    c3.v = __builtin_convertvector(product0.v, typename narrow::raw);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  auto const ordered = interleave<2 * Lanes>(interleave<Lanes>(c0, c2), interleave<Lanes>(c1, c3));
  __builtin_memcpy(to, &ordered.v, sizeof ordered.v);
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
      floats const value = simd::load_partial<Lanes>(from + i + k, count - k) * factor;
      simd::store_partial(to + i + k, simd::select(uniform < floats(p), floats(0.0F), value),
                          count - k);
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
