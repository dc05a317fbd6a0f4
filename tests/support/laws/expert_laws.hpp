// Checks of the operations of experts: a device's stream must route as the reference does, and give
// its results.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <parallel/ops/experts/choice_counts.hpp>
#include <parallel/ops/experts/expert_order.hpp>
#include <parallel/ops/experts/expert_rows.hpp>
#include <parallel/ops/experts/grouped_matmul.hpp>
#include <parallel/ops/experts/load_shares.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/experts/router_logits.hpp>
#include <parallel/ops/reference.hpp>

#include "support/twin.hpp"

namespace test {

/// Integers must be equal, and other results near.
template <class T, class Device>
void check_sums(twin<T, Device> const& array, double terms) {
  if constexpr (std::is_integral_v<T>)
    check_equal(array);
  else
    check_near(array, 8.0 * (terms + 4.0) * unit<accumulate_t<T>>, 2.0 * unit<T>);
}

/// From the logits of rows to the gradients of logits. Choices, places and counts must be equal.
template <class T, class Device>
void check_routing(both_sides<Device>& sides) {
  namespace ops = parallel::ops;
  using A = accumulate_t<T>;
  for (auto const& shape : {std::array<index, 4>{1, 3, 2, 1}, {300, 65, 8, 3}, {70, 1024, 64, 8}}) {
    auto const [rows, width, experts, top_k] = shape;
    CAPTURE(shape[0]);
    CAPTURE(shape[2]);
    auto x = sides.template random<T>(rows * width),
         weight = sides.template random<T>(experts * width);
    auto logits = sides.template poisoned<A>(rows * experts);
    auto drawn = sides.template random<A>(rows * experts);  // the same on both sides
    auto scores = sides.template poisoned<A>(rows * experts),
         slopes = sides.template random<A>(experts), z_slopes = sides.template random<A>(1);
    auto weights = sides.template poisoned<A>(rows * top_k),
         dweights = sides.template random<A>(rows * top_k);
    auto dlogits = sides.template poisoned<T>(rows * experts);
    auto counts = sides.template poisoned<A>(experts), shares = sides.template poisoned<A>(experts);
    auto chosen = sides.template poisoned<std::int32_t>(rows * top_k),
         places = sides.template poisoned<std::int32_t>(rows * top_k),
         ends = sides.template poisoned<std::int32_t>(experts),
         lost = sides.template poisoned<std::int32_t>(2);
    ops::route_options options{.norm = 1.0};
    if (std::is_integral_v<T>) options = {.score = ops::router_score::identity};
    sides.run([&, rows = rows, width = width, experts = experts, top_k = top_k](auto& s) {
      using number = std::remove_pointer_t<decltype(drawn.data_for(s))>;
      auto const all = as_matrix(s, drawn, rows, experts), to = as_matrix(s, scores, rows, experts);
      auto const choices = as_matrix(s, chosen, rows, top_k);
      ops::router_logits(s, as_matrix(s, logits, rows, experts), as_matrix(s, x, rows, width),
                         as_matrix(s, weight, experts, width));
      ops::route(s, to, choices, choices, as_matrix(s, weights, rows, top_k), all, {}, options);
      ops::choice_counts(s, as_matrix(s, counts, 1, experts), choices);
      ops::load_shares(s, as_vector(s, shares).span(),
                       std::span<number const>(as_vector(s, counts).span()), number(3));
      ops::expert_order(s, as_matrix(s, places, rows, top_k), as_matrix(s, ends, 1, experts),
                        as_vector(s, lost), choices,
                        {.block_rows = rows * top_k - 1, .sequence = 50, .capacity = 20});
      ops::route_backward(s, as_matrix(s, dlogits, rows, experts),
                          as_matrix(s, dweights, rows, top_k), all, to, choices,
                          matrix_view<number const>(as_matrix(s, slopes, 1, experts)),
                          vector_view<number const>(as_vector(s, z_slopes)), options);
    });
    check_sums(logits, static_cast<double>(width));
    for (auto const* numbers : {&chosen, &places, &ends, &lost}) check_equal(*numbers);
    check_sums(counts, 0.0);
    check_sums(shares, 0.0);
    check_sums(scores, 0.0);
    check_sums(weights, 0.0);
    check_sums(dlogits, 16.0);
  }
}

/// Rows to experts, the experts' products, and back.
template <class T, class Device>
void check_experts(both_sides<Device>& sides) {
  namespace ops = parallel::ops;
  using A = accumulate_t<T>;
  index const rows = 150, top_k = 2, copies = rows * top_k, experts = 4;
  for (auto const& [in, out] : {std::pair<index, index>{8, 65}, {70, 24}}) {
    std::vector<std::int32_t> permuted, segment_ends{7, 7, 200, 290};
    for (index i = 0; i < copies; ++i)
      permuted.push_back(i % 9 == 8 ? -1 : static_cast<std::int32_t>((i * 7 + 5) % copies));
    auto places = sides.twin_of(permuted), ends = sides.twin_of(segment_ends);
    auto x = sides.template random<T>(rows * in), y = sides.template random<T>(rows * out);
    auto buffer = sides.template random<T>(copies * in);
    auto results = sides.template random<T>(copies * out);
    auto sums = sides.template poisoned<T>(rows * out);
    auto gradients = sides.template random<T>(copies * out);
    auto weights = sides.template random<A>(copies), dweights = sides.template poisoned<A>(copies);
    auto w = sides.template random<T>(experts * in * out);
    auto products = sides.template random<T>(copies * out),
         added = sides.template random<T>(copies * in);
    auto dw = sides.template random<A>(experts * in * out);
    sides.run([&, in = in, out = out](auto& s) {
      auto const to = as_matrix(s, places, rows, top_k), last = as_matrix(s, ends, 1, experts);
      auto const factors = as_matrix(s, weights, rows, top_k);
      auto const addend = as_matrix(s, y, rows, out), from = as_matrix(s, results, copies, out);
      ops::scatter_rows(s, as_matrix(s, buffer, copies, in), as_matrix(s, x, rows, in), to);
      ops::combine_rows(s, as_matrix(s, sums, rows, out), from, to, factors, addend);
      ops::combine_rows_backward(s, as_matrix(s, gradients, copies, out),
                                 as_matrix(s, dweights, rows, top_k), addend, from, to, factors);
      ops::grouped_matmul(s, as_matrix(s, products, copies, out), as_matrix(s, buffer, copies, in),
                          as_matrix(s, w, experts * out, in), last, {.transpose_b = true});
      ops::grouped_matmul(s, as_matrix(s, added, copies, in), from,
                          as_matrix(s, w, experts * out, in), last, {.accumulate = true});
      ops::grouped_matmul_weight(s, as_matrix(s, dw, experts * in, out),
                                 as_matrix(s, buffer, copies, in), from, last, true);
    });
    check_equal(buffer);
    check_sums(sums, 3.0);
    check_sums(gradients, 0.0);
    check_sums(dweights, static_cast<double>(out));
    check_sums(products, static_cast<double>(in));
    check_sums(added, static_cast<double>(out));
    check_sums(dw, 200.0);
  }
}

}  // namespace test
