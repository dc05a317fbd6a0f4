// The body of the add_bias kernel on the host, and its gradient by the kernels of norm gradients,
// against the reference loops.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/norm/norm_weight_gradient.hpp>
#include <parallel/ops/cuda/kernels/pointwise/bias.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_bias_test {

using namespace parallel;
using ops_support::random;
using ops_support::same_bits;
using parallel::index;
using testing::guarded;

TEST_CASE_TEMPLATE("add_bias kernel: a bias is added to every row at any alignment", T, float, bf16,
                   double, std::uint64_t) {
  for (index const rows : {0, 1, 7})
    for (index const columns : {0, 1, 5, 16, 1032}) {
      auto const y = random<T>(rows * columns, 1);
      auto const bias = random<T>(columns, 2);
      auto expected = y;
      reference::stream ref_stream;
      ops::add_bias(ref_stream, matrix_view<T>(expected.data(), {rows, columns}),
                    ops_support::vector(bias));
      for (std::size_t const offset : {0, 1}) {
        guarded<T> addend(bias, offset);
        testing::run_on_copies(
            y, 2, 64, 0,
            [&](T* to) {
              return cuda::kernels::add_bias<T>{to, addend.data(), nullptr, rows, columns};
            },
            [&](auto const& got) { CHECK(same_bits(got, expected)); });
      }
      auto const added = random<T>(rows * columns, 3);
      auto sum = y;
      ops::add_bias(ref_stream, matrix_view<T>(sum.data(), {rows, columns}),
                    ops_support::vector(bias), matrix_view<T const>(added.data(), {rows, columns}));
      for (std::size_t const offset : {0, 1}) {
        guarded<T> addend(added, offset);
        testing::run_on_copies(
            y, 2, 64, 0,
            [&](T* to) {
              return cuda::kernels::add_bias<T>{to, bias.data(), addend.data(), rows, columns};
            },
            [&](auto const& got) { CHECK(same_bits(got, sum)); });
      }
    }
}

TEST_CASE("add_bias kernels: in integers the gradient of a bias is exact") {
  using T = std::uint64_t;
  namespace kernels = cuda::kernels;
  for (index const rows : {1, 31, 33, 100})
    for (index const columns : {1, 5, 66}) {
      auto const dy = random<T>(rows * columns, 3);
      auto const dbias = random<T>(columns, 4);
      auto expected = dbias;
      reference::stream ref_stream;
      matrix_view<T const> const view(dy.data(), {rows, columns});
      ops::add_bias_backward(ref_stream, ops_support::vector(expected), view);

      ops::rows_view<T const> const from(view);
      auto const parts = kernels::weight_gradient_division::for_rows(from);
      auto const chunks = static_cast<unsigned>(parts.chunks);
      guarded<T> sums(parts.sums(columns), 0);
      testing::run_on_copies(
          dbias, static_cast<unsigned>((2 * columns + 31) / 32), 64, 64 * sizeof(T),
          [&](T* to) {
            testing::host_block::run_grid(static_cast<unsigned>(parts.tiles) * chunks, 64,
                                          64 * cuda::pack_size<T> * sizeof(T),
                                          testing::thread_order::shuffled,
                                          kernels::weight_gradient_of_chunks<T, false>{
                                              sums.data(), from, from, nullptr, nullptr, true,
                                              static_cast<unsigned>(parts.tiles), chunks});
            return kernels::weight_gradient_of_all<T>{nullptr, to, sums.data(),
                                                      static_cast<unsigned>(columns), chunks};
          },
          [&](auto const& got) { CHECK(same_bits(got, expected)); });
      CHECK(sums.intact());
    }
}

}  // namespace cuda_bias_test
