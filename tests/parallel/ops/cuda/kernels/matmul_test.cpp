// The body of the plain product on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/cuda/kernels/matmul.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"

namespace cuda_matmul_test {

using namespace parallel;
using parallel::index;  // hides the function of strings.h

template <class T>
T number(int value) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

/// Integers up to 15: sums of their products are exact in float, and more than bf16 can hold.
template <class T>
std::vector<T> integers(index count, std::uint32_t stream) {
  philox const random(7, stream);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = number<T>(static_cast<int>(random.bits(i) % 31U) - 15);
  return out;
}

template <class In, class Out>
struct types {
  using input = In;
  using output = Out;
};

TEST_CASE_TEMPLATE(
    "matmul kernel: equals the reference for all transposes, in every order of threads", Types,
    types<float, float>, types<bf16, bf16>, types<bf16, float>, types<double, double>,
    types<std::uint64_t, std::uint64_t>) {
  using T = typename Types::input;
  using C = typename Types::output;
  using kernel = cuda::kernels::matmul<C, T>;
  struct extents {
    index m, n, k;
  };
  for (auto const size : {extents{1, 1, 1}, extents{3, 1, 0}, extents{0, 5, 2}, extents{1, 67, 17},
                          extents{130, 5, 16}, extents{65, 70, 33}})
    for (int bits = 0; bits < 8; ++bits) {
      auto const [m, n, k] = size;
      ops::matmul_options const options{.transpose_a = (bits & 1) != 0,
                                        .transpose_b = (bits & 2) != 0,
                                        .accumulate = (bits & 4) != 0};
      auto const a = integers<T>(m * k, 1);
      auto const b = integers<T>(k * n, 2);
      auto expected = integers<C>(m * n, 3);
      auto const initial = expected;
      reference::stream ref_stream;
      ops::matmul(
          ref_stream, matrix_view<C>(expected.data(), {m, n}),
          matrix_view<T const>(a.data(), options.transpose_a ? shape<2>{k, m} : shape<2>{m, k}),
          matrix_view<T const>(b.data(), options.transpose_b ? shape<2>{n, k} : shape<2>{k, n}),
          options);
      auto c = initial;
      c.push_back(number<C>(-77));
      kernel const body{c.data(),
                        a.data(),
                        b.data(),
                        m,
                        n,
                        k,
                        options.transpose_a,
                        options.transpose_b,
                        options.accumulate ? c.data() : nullptr};
      auto const tiles = static_cast<unsigned>(kernel::tiles(m, n));
      CAPTURE(size.m);
      CAPTURE(size.n);
      CAPTURE(size.k);
      CAPTURE(bits);
      testing::run_in_every_order(tiles, kernel::block_threads, kernel::shared_bytes, body,
                                  [&](auto) {
                                    CHECK(std::equal(expected.begin(), expected.end(), c.begin()));
                                    CHECK(c.back() == number<C>(-77));
                                    std::copy(initial.begin(), initial.end(), c.begin());
                                  });
      if (!options.accumulate) continue;
      auto apart = body;
      apart.addend = initial.data();
      std::fill(c.begin(), c.end(), number<C>(-77));
      testing::host_block::run_grid(tiles, kernel::block_threads, kernel::shared_bytes,
                                    testing::thread_order::shuffled, apart);
      CHECK(std::equal(expected.begin(), expected.end(), c.begin()));
      CHECK(c.back() == number<C>(-77));
    }
}

TEST_CASE("matmul kernel: one block computes every tile when there are more tiles than blocks") {
  using kernel = cuda::kernels::matmul<double, double>;
  index const m = 65, n = 129, k = 3;
  auto const a = integers<double>(m * k, 1);
  auto const b = integers<double>(k * n, 2);
  std::vector<double> expected(m * n), c(m * n, std::nan(""));
  reference::stream ref_stream;
  ops::matmul(ref_stream, matrix_view<double>(expected.data(), {m, n}),
              matrix_view<double const>(a.data(), {m, k}),
              matrix_view<double const>(b.data(), {k, n}));
  CHECK(kernel::tiles(m, n) == 6);
  testing::host_block::run_grid(
      1, kernel::block_threads, kernel::shared_bytes, testing::thread_order::shuffled,
      kernel{c.data(), a.data(), b.data(), m, n, k, false, false, nullptr});
  CHECK(c == expected);
}

TEST_CASE("matmul kernel: infinities and NaN reach only the elements whose sums contain them") {
  using kernel = cuda::kernels::matmul<float, float>;
  index const m = 17, n = 18, k = 5;
  std::vector<float> a(m * k, 1.0F), b(k * n, 1.0F), c(m * n);
  a[3 * k + 4] = std::numeric_limits<float>::infinity();
  b[2 * n + 17] = std::nanf("");
  testing::run_in_every_order(
      1, kernel::block_threads, kernel::shared_bytes,
      kernel{c.data(), a.data(), b.data(), m, n, k, false, false, nullptr}, [&](auto) {
        for (index i = 0; i < m; ++i)
          for (index j = 0; j < n; ++j) {
            float const value = c[static_cast<std::size_t>(i * n + j)];
            if (j == 17)
              CHECK(std::isnan(value));
            else
              CHECK(value == (i == 3 ? std::numeric_limits<float>::infinity() : 5.0F));
          }
      });
}

}  // namespace cuda_matmul_test
