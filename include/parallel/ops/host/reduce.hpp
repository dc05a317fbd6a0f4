// Reductions on the host. Sums use 16 double accumulators over blocks of 65536 elements, which are
// then added in order, on every instruction set. Squares of floats are exact in double, so
// squared_norm has the same bits for every processor and number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reduce.hpp>

namespace parallel::host {

namespace detail {

/// The sum of map(x[i]) over `count` elements in double, in 16 accumulators; `map` takes and
/// returns a pack of doubles, and maps 0 to 0. For use within simd::dispatch.
template <int Lanes, class T, class Map>
[[gnu::always_inline]] inline double sum_block(T const* x, index count, Map const& map) {
  constexpr int L = Lanes / 2;  // doubles in one register
  using doubles = simd::pack<double, L>;
  constexpr int parts = 16 / L;
  constexpr auto part_indices = std::make_integer_sequence<int, parts>{};
  doubles sums[parts];
  simd::unrolled(
      part_indices, [&](auto k) __attribute__((always_inline)) { sums[k] = doubles(0.0); });
  auto const add = [&](auto const& load) __attribute__((always_inline)) {
    simd::unrolled(
        part_indices, [&](auto k) __attribute__((always_inline)) {
          doubles wide;
          wide.v = __builtin_convertvector(load(k * L).v, typename doubles::raw);
          sums[k] += map(wide);
        });
  };
  index i = 0;
  for (; i + 16 <= count; i += 16)
    add([&](index k) __attribute__((always_inline)) { return simd::load<L>(x + i + k); });
  if (i < count)
    add([&](index k) __attribute__((always_inline)) {
      return simd::load_partial<L>(x + i + k, std::max<index>(count - i - k, 0));
    });
  for (int half = parts / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
  return simd::sum(sums[0]);
}

/// The sum in double of any number of elements, in blocks.
template <class T, class Map>
[[nodiscard]] double sum_in_double(workspace& memory, int threads, std::span<T const> x,
                                   Map const& map) {
  constexpr index grain = 65536;
  index const count = std::ssize(x);
  index const blocks = (count + grain - 1) / grain;
  auto* const partial = scratch_array<double>(memory, blocks);
  parallel_for(threads, count, grain, [&](index begin, index end) {
    simd::dispatch([&, from = x.data() ](auto lanes) __attribute__((always_inline)) {
      partial[begin / grain] = sum_block<lanes>(from + begin, end - begin, map);
    });
  });
  double total = 0.0;
  for (index block = 0; block < blocks; ++block) total += partial[block];
  return total;
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::squared_norm_arguments<T> const& a) {
  if constexpr (simd_element<T>)
    s.enqueue({a.name}, [=, &s, threads = s.threads()] {
      *a.out += detail::sum_in_double(
          s.memory(), threads, a.x,
          [](auto const& v) __attribute__((always_inline)) { return v * v; });
    });
  else
    s.enqueue({a.name}, [=] { ops::compute(a); });
}

template <class T>
void run_operation(stream& s, ops::sum_arguments<T> const& a) {
  if constexpr (simd_element<T>)
    s.enqueue({a.name}, [=, &s, threads = s.threads()] {
      *a.out += detail::sum_in_double(
          s.memory(), threads, a.x, [](auto const& v) __attribute__((always_inline)) { return v; });
    });
  else
    s.enqueue({a.name}, [=] { ops::compute(a); });
}

template <class T>
void run_operation(stream& s, ops::all_finite_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      std::atomic<bool> finite = true;
      parallel_for(threads, std::ssize(a.x), 4 * block_elements, [&](index begin, index end) {
        simd::dispatch([&, from = a.x.data() ](auto lanes) __attribute__((always_inline)) {
          using words = simd::pack<std::uint32_t, lanes>;
          // an exponent of all ones carries into the sign bit when one is added to it
          words carry(0U);
          for (index i = begin; i < end; i += lanes) {
            auto const word =
                simd::bits_as<std::uint32_t>(simd::load_partial<lanes>(from + i, end - i));
            carry.v |= (word.v & 0x7f800000U) + 0x00800000U;
          }
          for (int lane = 0; lane < lanes; ++lane)
            if ((carry.v[lane] & 0x80000000U) != 0) finite.store(false, std::memory_order_relaxed);
        });
      });
      if (!finite) *a.out = 0;
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::exact_squared_norm_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    std::mutex lock;
    parallel_for(threads, std::ssize(a.x), index{1} << 16, [&](index begin, index end) {
      exact_sum part;
      ops::exact_squared_norm_arguments<T>{
          &part,
          a.x.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))}
          .compute();
      std::scoped_lock const guard(lock);
      a.out->add(part);  // in any order
    });
  });
}

}  // namespace parallel::host
