// The bodies of the reductions' kernels on the host, against exact sums and the reference loops.
#include <doctest/doctest.h>

#include <limits>
#include <span>
#include <vector>

#include <parallel/ops/cuda/kernels/reduce.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_reduce_test {

using namespace parallel;

/// Runs both kernels of a sum as the launcher does.
template <class Map, class T, class S = ops::sum_t<T>>
void sum_by_kernels(S* out, std::span<T const> x, unsigned threads, testing::thread_order order) {
  using namespace cuda::kernels;
  auto const pieces = pieces_of(x.size());
  std::vector<S> partial(pieces);
  testing::host_block::run_grid(static_cast<unsigned>(pieces), threads, 32 * sizeof(S), order,
                                sum_of_pieces<T, Map>{partial.data(), x.data(), x.size()});
  testing::host_block::run_grid(1, threads, 32 * sizeof(S), order,
                                add_pieces<S>{out, partial.data(), pieces});
}

/// Small integers: their sums, and those of their squares, are exact in every type.
template <class T>
std::vector<T> integers(std::size_t count) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto const value = static_cast<float>((i * 7919) % 31) - (std::is_integral_v<T> ? 0.0F : 15.0F);
    out[i] = static_cast<T>(value);
  }
  return out;
}

TEST_CASE_TEMPLATE(
    "reduction kernels: sums and sums of squares are exact and added, at any alignment", T, float,
    bf16, double, std::uint64_t, std::uint8_t) {
  using S = ops::sum_t<T>;
  auto const numbers = integers<T>(40020);
  for (std::size_t const begin : {0, 1})
    for (std::size_t const count : {0, 1, 17, 16384, 16385, 40000}) {
      auto const x = std::span<T const>(numbers).subspan(begin, count);
      S sum = 5, squares = 5;
      for (T const v : x) {
        sum += static_cast<S>(v);
        squares += static_cast<S>(v) * static_cast<S>(v);
      }
      using enum testing::thread_order;
      for (auto const order : {ascending, descending, shuffled}) {
        S out = 5;
        sum_by_kernels<cuda::kernels::identity>(&out, x, 64, order);
        CHECK(out == sum);
        out = 5;
        sum_by_kernels<cuda::kernels::squared>(&out, x, 64, order);
        CHECK(out == squares);
      }
    }
}

TEST_CASE("reduction kernels: squares of integers wrap modulo 2^64") {
  std::vector<std::uint64_t> const x(100, 0xffffffffffffff01U);
  std::uint64_t out = 0;
  sum_by_kernels<cuda::kernels::squared>(&out, std::span<std::uint64_t const>(x), 64,
                                         testing::thread_order::shuffled);
  CHECK(out == 100U * 255U * 255U);
}

TEST_CASE(
    "reduction kernels: a sum has the same bits at any alignment, and is computed in double") {
  auto const numbers = testing::normal_numbers<float>(30000, 1);
  double first = 0, expected = 0;
  std::span<float const> const x(numbers);
  sum_by_kernels<cuda::kernels::squared>(&first, x, 128, testing::thread_order::ascending);
  reference::stream ref_stream;
  ops::squared_norm(ref_stream, &expected, x);
  CHECK(first == doctest::Approx(expected).epsilon(1e-12));
  std::vector<float> moved(1);
  moved.insert(moved.end(), numbers.begin(), numbers.end());
  double second = 0;
  sum_by_kernels<cuda::kernels::squared>(&second, std::span<float const>(moved).subspan(1), 128,
                                         testing::thread_order::descending);
  CHECK(first == second);
}

TEST_CASE_TEMPLATE(
    "all_finite kernel: one bad number is found anywhere, and otherwise the output is unchanged", T,
    float, bf16, double) {
  float const inf = std::numeric_limits<float>::infinity();
  auto x = testing::normal_numbers<T>(40000, 1);
  x[5] = T(0x1.fep127F);
  auto const check = [&](std::size_t begin, std::size_t count, int expected) {
    int out = 7;
    testing::run_in_every_order(2, 64, 32 * sizeof(int),
                                cuda::kernels::all_finite<T>{&out, x.data() + begin, count},
                                [&](auto) {
                                  CHECK(out == expected);
                                  out = 7;
                                });
  };
  check(0, 40000, 7);
  check(0, 0, 7);
  for (float const bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t const position : {0, 16383, 16390, 39999}) {
      T const original = x[position];
      x[position] = T(bad);
      check(0, 40000, 0);
      if (position > 0) check(1, 39999, 0);
      check(0, position, 7);
      x[position] = original;
    }
}

}  // namespace cuda_reduce_test
