// Shared by the tests of operations: numbers, streams, and a comparison whose bound depends on the
// element type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/ops/reference.hpp>

namespace ops_support {

/// Sizes around the numbers of lanes and of elements in a block.
inline constexpr std::ptrdiff_t odd_sizes[] = {0,  1,  2,  3,  5,   7,   8,    15,   16,
                                               17, 31, 33, 65, 127, 768, 1001, 40001};

/// The relative rounding error of T.
template <class T>
inline constexpr double unit = std::is_same_v<T, double>  ? 0x1p-53
                               : std::is_same_v<T, float> ? 0x1p-24
                                                          : 0x1p-8;

template <class T>
[[nodiscard]] T number(double value) {
  return static_cast<T>(static_cast<parallel::accumulate_t<T>>(value));
}

/// Normal numbers; integers of 64 random bits for std::uint64_t.
template <class T>
[[nodiscard]] std::vector<T> random(std::ptrdiff_t size, std::uint64_t seed,
                                    double deviation = 1.0) {
  parallel::philox const source(seed, parallel::stream_id("tests of operations"));
  std::vector<T> out(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      out[i] = static_cast<T>(source.bits(2 * i) * 0x100000001ULL ^ source.bits(2 * i + 1));
    else
      out[i] = number<T>(deviation * static_cast<double>(source.normal(i)));
  }
  return out;
}

/// Integers in [0, count).
[[nodiscard]] inline std::vector<std::int32_t> random_ids(std::ptrdiff_t size, std::int32_t count,
                                                          std::uint64_t seed) {
  parallel::philox const source(seed, parallel::stream_id("ids"));
  std::vector<std::int32_t> out(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::int32_t>(source.bits(i) % static_cast<std::uint32_t>(count));
  return out;
}

/// Runs `work(stream)` on a host stream and waits for it.
template <class Work>
void on_host(int threads, Work const& work) {
  parallel::host::stream stream({.threads = threads});
  work(stream);
  stream.synchronize();
}

/// Runs `work(stream)` on the reference stream.
template <class Work>
void on_reference(Work&& work) {
  parallel::reference::stream stream;
  work(stream);
}

template <class T>
[[nodiscard]] parallel::vector_view<T> vector(std::vector<T>& data) {
  return {data.data(), {std::ssize(data)}};
}
template <class T>
[[nodiscard]] parallel::vector_view<T const> vector(std::vector<T> const& data) {
  return {data.data(), {std::ssize(data)}};
}
template <class T>
[[nodiscard]] parallel::matrix_view<T> matrix(std::vector<T>& data, std::ptrdiff_t rows) {
  return {data.data(), {rows, rows == 0 ? 0 : std::ssize(data) / rows}};
}
template <class T>
[[nodiscard]] parallel::matrix_view<T const> matrix(std::vector<T> const& data,
                                                    std::ptrdiff_t rows) {
  return {data.data(), {rows, rows == 0 ? 0 : std::ssize(data) / rows}};
}

/// The greatest |a - b| - relative * |b|: at most the absolute error allowed. Infinite if exactly
/// one of the two is NaN.
template <class A, class B>
[[nodiscard]] double excess(std::vector<A> const& a, std::vector<B> const& b, double relative) {
  double worst = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double const x(a[i]);
    double const y(b[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    double const distance = x == y ? 0.0 : std::abs(x - y) - relative * std::abs(y);
    worst =
        std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(worst, distance);
  }
  return worst;
}

/// Equal bits (so NaN equals itself, and -0 is not 0).
template <class T>
[[nodiscard]] bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         std::equal(reinterpret_cast<unsigned char const*>(a.data()),
                    reinterpret_cast<unsigned char const*>(a.data() + a.size()),
                    reinterpret_cast<unsigned char const*>(b.data()));
}

/// How far results may be from the reference's; without numbers they have the same bits, but for
/// those of a NaN.
struct tolerance {
  double relative = 0;
  double absolute = 0;
};

/// Compares arrays with the expected ones.
template <class... T>
void check_within(tolerance const& bound, std::tuple<std::vector<T>...> got,
                  std::tuple<std::vector<T>...> const& expected) {
  auto const check = [&]<class E>(std::vector<E>& a, std::vector<E> const& b) {
    if constexpr (!std::is_integral_v<E>) {
      bool const exact = bound.absolute == 0 && bound.relative == 0;
      if (!exact) CHECK(excess(a, b, bound.relative) <= bound.absolute);
      for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (!exact || (std::isnan(double(a[i])) && std::isnan(double(b[i])))) a[i] = b[i];
    }
    CHECK(same_bits(a, b));
  };
  [&]<std::size_t... Array>(std::index_sequence<Array...>) {
    (check(std::get<Array>(got), std::get<Array>(expected)), ...);
  }
  (std::index_sequence_for<T...>{});
}

/// Calls run(stream, arrays...), which may write to any of the arrays, on a reference stream and on
/// host streams of one and two threads: these give the same bits, within the bound of the
/// reference.
template <class Run, class... T>
void compare_host(tolerance const& bound, Run const& run, std::vector<T> const&... arrays) {
  std::tuple expected(arrays...), one_thread(arrays...), two_threads(arrays...);
  auto const run_on = [&](auto& s, auto& copies) {
    std::apply([&](auto&... array) { run(s, std::span(array)...); }, copies);
  };
  on_reference([&](auto& s) { run_on(s, expected); });
  on_host(1, [&](auto& s) { run_on(s, one_thread); });
  on_host(2, [&](auto& s) { run_on(s, two_threads); });
  check_within(bound, one_thread, expected);
  check_within({}, two_threads, one_thread);
}

}  // namespace ops_support
