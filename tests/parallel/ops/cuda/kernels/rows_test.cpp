// The bodies of the kernels by row on the host, against the reference loops.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/ops/cuda/kernels/rows.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_rows_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE(
    "kernels by row: rows are summed and scaled for any beginning and end of the range", T, float,
    bf16, double) {
  for (index const size : {0, 1, 7, 64, 500, 13000})
    for (index const width : {1, 5, 8, 96, 1000, 5003, 90000})
      for (index const first : {0, 3, 16, 101}) {
        ops::rows_location const location{first, width};
        auto const rows = ops::detail::rows_needed(location, size);
        auto const x = ops_support::random<T>(size, 1);
        auto const sums = ops_support::random<double>(rows, 2);
        auto const factors = ops_support::random<accumulate_t<T>>(rows, 3);
        auto expected_sums = sums;
        auto scaled = x;
        reference::stream ref_stream;
        ops::row_squared_norms(ref_stream, std::span(expected_sums), std::span<T const>(x),
                               location);
        ops::scale_rows(ref_stream, std::span(scaled), std::span<accumulate_t<T> const>(factors),
                        location);
        testing::run_on_copies(
            x, 2, 64, 0,
            [&](T* to) {
              return cuda::kernels::scale_rows<T>{to, factors.data(), size, location};
            },
            [&](auto const& got) { CHECK(ops_support::same_bits(got, scaled)); });

        if (size > 500) continue;  // sums of this many elements have other bounds
        std::vector<double> one;   // sums do not depend on the order of threads or the alignment
        for (std::size_t const offset : {0, 1}) {
          testing::guarded<T> from(x, offset);
          testing::run_on_copies(
              sums, 2, 64, 0,
              [&](double* to) {
                return cuda::kernels::row_squared_norms<T>{to, from.data(), size, location};
              },
              [&](auto const& got) {
                if (one.empty()) one = got;
                CHECK(ops_support::same_bits(got, one));
                CHECK(ops_support::excess(got, expected_sums, 1e-14) <= 1e-13);
              });
        }
      }
}

}  // namespace cuda_rows_test
