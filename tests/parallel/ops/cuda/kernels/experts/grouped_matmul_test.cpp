// The bodies of the products of experts on the host, against the reference loops, whose order of
// sums they have.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/experts/grouped_matmul.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_grouped_matmul_test {

using namespace parallel;
using parallel::index;

struct segments {
  index rows, blocks, experts;
  std::vector<std::int32_t> ends;
};

TEST_CASE_TEMPLATE(
    "grouped_matmul kernels: products and weight gradients have the reference's bits, and other "
    "rows stay",
    T, float, bf16, double, std::uint64_t) {
  using A = accumulate_t<T>;
  constexpr index in = 17, out = 70;
  for (segments const& p : {segments{0, 1, 2, {0, 0}},
                            {140, 1, 3, {1, 1, 131}},
                            {80, 2, 2, {0, 40, 4, 39}},
                            {90, 3, 1, {30, 0, 15}}})
    for (bool const transpose_b : {false, true})
      for (bool const accumulate : {false, true}) {
        CAPTURE(p.rows);
        CAPTURE(transpose_b);
        CAPTURE(accumulate);
        auto const a = ops_support::random<T>(p.rows * in, 1);
        auto const b = ops_support::random<T>(p.experts * in * out, 2);
        auto const c = ops_support::random<T>(p.rows * out, 3);
        matrix_view<std::int32_t const> const ends(p.ends.data(), {p.blocks, p.experts});
        cuda::kernels::expert_ends const own{p.ends.data(), p.blocks, p.experts, p.rows / p.blocks};
        auto expected = c;
        reference::stream plain;
        ops::grouped_matmul(plain, matrix_view<T>(expected.data(), {p.rows, out}),
                            matrix_view<T const>(a.data(), {p.rows, in}),
                            matrix_view<T const>(b.data(), {p.experts * (transpose_b ? out : in),
                                                            transpose_b ? in : out}),
                            ends, {.transpose_b = transpose_b, .accumulate = accumulate});
        using product = typename cuda::kernels::grouped_matmul<T>::product;
        auto const run = [&](auto const& initial, auto const& wanted, unsigned blocks,
                             auto const& make) {
          testing::run_on_copies(
              initial, blocks, product::block_threads, product::shared_bytes, make,
              [&](auto const& got) { CHECK(ops_support::same_bits(got, wanted)); });
        };
        for (unsigned const blocks : {2U, 12U})
          run(c, expected, blocks, [&](T* to) {
            cuda::kernels::grouped_matmul<T> const body{to,  a.data(), b.data(),    own,
                                                        out, in,       transpose_b, accumulate};
            CHECK(body.most_tiles() <= 12);
            return body;
          });
        if (transpose_b) continue;
        auto const gradient = ops_support::random<A>(p.experts * in * out, 4);
        auto expected_gradient = gradient;
        ops::grouped_matmul_weight(plain,
                                   matrix_view<A>(expected_gradient.data(), {p.experts * in, out}),
                                   matrix_view<T const>(a.data(), {p.rows, in}),
                                   matrix_view<T const>(c.data(), {p.rows, out}), ends, accumulate);
        run(gradient, expected_gradient, 2, [&](A* to) {
          return cuda::kernels::grouped_matmul_weight<T>{to, a.data(), c.data(),  own,
                                                         in, out,      accumulate};
        });
      }
}

}  // namespace cuda_grouped_matmul_test
