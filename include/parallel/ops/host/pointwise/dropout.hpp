// dropout on the host: the same elements are dropped as on any other device.
#pragma once

#include <algorithm>
#include <cstdint>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/philox.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/dropout.hpp>

namespace parallel::host {

namespace detail {

/// y = x * factor where the element's uniform number is >= p, else 0, for [begin, end).
template <int Lanes, class T>
[[gnu::always_inline]] inline void drop(T* to, T const* from, index begin, index end, float p,
                                        float factor, std::uint64_t first,
                                        philox const& random_of) {
  using floats = simd::pack<float, Lanes>;
  std::uint32_t random[5 * Lanes] = {};  // 4 Lanes words; the rest may be read but is not used
  for (index i = begin; i < end;) {
    auto const element = first + static_cast<std::uint64_t>(i);
    auto const skip = static_cast<index>(element & 3U);
    philox_block<Lanes>(random, element >> 2, random_of);
    index const count = std::min<index>(4 * Lanes - skip, end - i);
    for (index k = 0; k < count; k += Lanes) {
      auto const uniform = uniform_of<Lanes>(random + skip + k);
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
void run_operation(stream& s, ops::dropout_arguments<T> const& a) {
  if (a.options.probability == 0.0F) return run_operation(s, ops::copy_arguments<T>{a.y, a.x});
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      float const p = a.options.probability;
      float const factor = p < 1.0F ? 1.0F / (1.0F - p) : 0.0F;
      parallel_for(threads, std::ssize(a.y), block_elements, [&](index begin, index end) {
        simd::dispatch([&, to = a.y.data(),
                        from = a.x.data() ](auto lanes) __attribute__((always_inline)) {
          auto const run_length = static_cast<index>(a.options.columns);
          for (index i = begin, stop; i < end; i = stop) {
            stop = run_length == 0 ? end : std::min(end, (i / run_length + 1) * run_length);
            auto const element_index = static_cast<std::size_t>(i);
            detail::drop<lanes>(to, from, i, stop, p, factor,
                                a.options.element(element_index) - element_index, a.options.random);
          }
        });
      });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
