// The bodies that send rows to experts and back on the host, against the reference.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/experts/expert_rows.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_expert_rows_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE(
    "expert row kernels: rows are scattered and combined with the reference's bits, and gradients "
    "within rounding",
    T, float, bf16, double, std::uint64_t) {
  using A = accumulate_t<T>;
  for (index const rows : {0, 1, 20})
    for (index const top_k : {1, 3})
      for (index const width : {1, 8, 13, 264}) {
        CAPTURE(rows);
        CAPTURE(top_k);
        CAPTURE(width);
        index const copies = rows * top_k + 1;
        std::vector<std::int32_t> places;
        for (index i = 0; i < rows * top_k; ++i)
          places.push_back(i % 5 == 4 ? -1 : static_cast<std::int32_t>(copies - 1 - i));
        matrix_view<std::int32_t const> const to(places.data(), {rows, top_k});
        auto const x = ops_support::random<T>(rows * width, 1);
        auto const buffer = ops_support::random<T>(copies * width, 2);
        auto const weights = ops_support::random<A>(rows * top_k, 3);
        testing::compare_kernel(
            {},
            [&](auto& s, auto y, auto from) {
              ops::scatter_rows(s, matrix_view<T>(y.data(), {copies, width}),
                                matrix_view<T>(from.data(), {rows, width}), to);
            },
            buffer, x);
        for (bool const adds : {false, true})
          testing::compare_kernel(
              {},
              [&](auto& s, auto y, auto from, auto factors, auto addend) {
                ops::combine_rows(
                    s, matrix_view<T>(y.data(), {rows, width}),
                    matrix_view<T>(from.data(), {copies, width}), to,
                    adds ? matrix_view<A>(factors.data(), {rows, top_k}) : matrix_view<A>{},
                    adds ? matrix_view<T>(addend.data(), {rows, width}) : matrix_view<T>{});
              },
              ops_support::random<T>(rows * width, 4), buffer, weights, x);
        bool const is_exact = std::is_integral_v<T>;
        for (bool const in_place : {false, true})
          testing::compare_kernel(
              {.relative = is_exact ? 0 : 1e-13,
               .absolute = is_exact ? 0 : 64 * double(width) * ops_support::unit<A>},
              [&](auto& s, auto dx, auto dweights, auto dy, auto results) {
                ops::combine_rows_backward(
                    s, matrix_view<T>(in_place ? results.data() : dx.data(), {copies, width}),
                    matrix_view<A>(dweights.data(), {rows, top_k}),
                    matrix_view<T>(dy.data(), {rows, width}),
                    matrix_view<T>(results.data(), {copies, width}), to,
                    matrix_view<A const>(weights.data(), {rows, top_k}));
              },
              ops_support::random<T>(copies * width, 5), ops_support::random<A>(rows * top_k, 6), x,
              buffer);
      }
}

}  // namespace cuda_expert_rows_test
