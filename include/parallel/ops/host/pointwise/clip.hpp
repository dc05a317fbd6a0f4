// clip and its gradient on the host.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/pointwise/clip.hpp>

namespace parallel::host {

namespace detail {

/// Stores the bytes to[i] = size[i] <= limit (0 for NaN) for the first `count` lanes. The
/// comparison is written as the condition of a choice, because g++ 12 splits it into lanes when it
/// is a value.
template <int Lanes>
[[gnu::always_inline]] inline void store_flags(std::uint8_t* to,
                                               simd::pack<float, Lanes> const& size,
                                               simd::pack<float, Lanes> const& limit, index count) {
  using words = simd::pack<std::int32_t, Lanes>;
  using bytes = simd::pack<std::uint8_t, Lanes>;
  bytes flags;
  flags.v =
      __builtin_convertvector(size.v <= limit.v ? words(1).v : words(0).v, typename bytes::raw);
  if (count >= Lanes) {
    __builtin_memcpy(to, &flags.v, sizeof flags.v);
    return;
  }
  for (index i = 0; i < count; ++i) to[i] = flags.v[i];
}

/// x in lanes whose byte is not 0, else 0.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> keep_flagged(
    simd::pack<float, Lanes> const& x, std::uint8_t const* from, index count) {
  using words = simd::pack<std::int32_t, Lanes>;
  std::uint8_t tail[Lanes] = {};
  if (count < Lanes) {
    for (index i = 0; i < count; ++i) tail[i] = from[i];
    from = tail;
  }
  simd::pack<std::uint8_t, Lanes> flags;
  __builtin_memcpy(&flags.v, from, sizeof flags.v);
  auto const wide = __builtin_convertvector(flags.v, typename words::raw);
  simd::pack<float, Lanes> const zero(0.0F);
  return simd::pack<float, Lanes>(wide != words(0).v ? x.v : zero.v);
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::clip_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(a.x),
          [ =, data = a.x.data(), flags = a.inside.empty() ? nullptr : a.inside.data() ](
              auto lanes, index i, index left) __attribute__((always_inline)) {
            auto const value = simd::load_partial<lanes>(data + i, left);
            auto const upper = broadcast<lanes>(a.limit);
            auto const lower = broadcast<lanes>(-a.limit);
            auto const clipped =
                simd::select(upper < value, upper, simd::select(value < lower, lower, value));
            if (flags != nullptr)
              detail::store_flags<lanes>(flags + i, simd::abs(value), upper, left);
            simd::store_partial(data + i, clipped, left);
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::clip_backward_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(a.dx),
          [ data = a.dx.data(), flags = a.inside.data() ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                auto const gradient = simd::load_partial<lanes>(data + i, left);
                simd::store_partial(data + i,
                                    detail::keep_flagged<lanes>(gradient, flags + i, left), left);
              });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
