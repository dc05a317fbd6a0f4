// The bodies of route and its gradient on the host, against the reference.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/experts/jitter.hpp>
#include <parallel/ops/cuda/kernels/experts/route.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_route_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE("route kernels: choices, weights and gradients of every row are the reference's",
                   A, float, double, std::uint64_t) {
  constexpr index experts = 8, top_k = 3;
  for (index const rows : {0, 1, 200})
    for (bool const has_bias : {false, true})
      for (ops::route_options const& options :
           {ops::route_options{.norm = 1.0, .scale = 2.0},
            ops::route_options{
                .score = ops::router_score::sigmoid, .groups = 4, .chosen_groups = 2},
            ops::route_options{.uniform = true, .first_row = 5}}) {
        CAPTURE(rows);
        auto const bias = ops_support::random<A>(experts, 7);
        auto const slopes = ops_support::random<A>(experts, 8);
        std::vector<A> const z_slopes{A(1)};
        auto const logits = ops_support::random<A>(rows * experts, 1);
        testing::compare_kernel(
            {},
            [&](auto& s, auto scores, auto chosen, auto scored, auto weights, auto dlogits) {
              matrix_view<std::int32_t> const experts_of_rows(chosen.data(), {rows, top_k});
              matrix_view<std::int32_t> const scored_of_rows(scored.data(), {rows, top_k});
              matrix_view<A const> const all(logits.data(), {rows, experts});
              matrix_view<A> const row_scores(scores.data(), {rows, experts});
              matrix_view<A> const row_weights(weights.data(), {rows, top_k});
              ops::route(s, row_scores, experts_of_rows, scored_of_rows, row_weights, all,
                         has_bias ? ops_support::vector(bias) : vector_view<A const>{}, options);
              ops::route_backward(
                  s, matrix_view<A>(dlogits.data(), {rows, experts}), row_weights, all, row_scores,
                  scored_of_rows,
                  has_bias ? ops_support::matrix(slopes, 1) : matrix_view<A const>{},
                  ops_support::vector(z_slopes), options);
            },
            ops_support::random<A>(rows * experts, 2), std::vector<std::int32_t>(rows * top_k),
            std::vector<std::int32_t>(rows * top_k), ops_support::random<A>(rows * top_k, 5),
            ops_support::random<A>(rows * experts, 6));
      }
}

TEST_CASE_TEMPLATE("jitter kernel: the host's factors", T, float, bf16, double) {
  for (std::size_t const size : {1, 1000, 5000}) {
    auto const x = ops_support::random<T>(static_cast<index>(size), 3);
    testing::compare_kernel(
        {},
        [&](auto& s, auto y) {
          ops::jitter(s, y, std::span<T const>(x),
                      {.eps = 0.25F, .random = {7, 3, 1}, .first_element = 11});
        },
        ops_support::random<T>(static_cast<index>(size), 4));
  }
}

}  // namespace cuda_route_test
