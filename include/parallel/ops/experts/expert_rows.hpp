// expert_rows: rows on their way to the experts that they have chosen, and back.
//
// scatter_rows copies each row to its places (ops/experts/expert_order.hpp), and combine_rows adds
// what is there, with the weights of the choices, in their order. The gradient of one is made by
// the other: that of scatter_rows is combine_rows without weights. Choices without a place (-1)
// take no part. Cost: each reads and writes M K rows once.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

template <class T>
struct scatter_rows_arguments {
  static constexpr char const* name = "scatter_rows";
  matrix_view<T> y;
  matrix_view<T const> x;
  matrix_view<std::int32_t const> places;

  [[nodiscard]] auto operands() const { return std::tuple(y, x, places); }
  [[nodiscard]] index parts() const { return x.extent(0); }
  void compute(index m) const {
    for (index c = 0; c < places.extent(1); ++c)
      if (index const place = places(m, c); place >= 0)
        for (index n = 0; n < x.extent(1); ++n) y(place, n) = x(m, n);
  }
};

/// scatter_rows(s, y, x, places): y[places[m,c],:] = x[m,:] for x [M,D], places [M,K], y [N,D].
/// Other rows of y stay as they are.
inline constexpr auto scatter_rows = []<class Stream, class T>(
                                         Stream& s, matrix_view<T> y,
                                         std::type_identity_t<matrix_view<T const>> x,
                                         matrix_view<std::int32_t const> places) {
  auto constexpr name = "scatter_rows";
  detail::require_equal(name, "the width of y", y.extent(1), "that of x", x.extent(1));
  detail::require_equal(name, "the number of rows of places", places.extent(0), "that of x",
                        x.extent(0));
  run_operation(s, scatter_rows_arguments<T>{y, x, places});
};

template <class T>
struct combine_rows_arguments {
  static constexpr char const* name = "combine_rows";
  matrix_view<T> y;
  matrix_view<T const> x;
  matrix_view<std::int32_t const> places;
  matrix_view<accumulate_t<T> const> weights;
  matrix_view<T const> addend;

  [[nodiscard]] auto operands() const { return std::tuple(y, x, places, weights, addend); }
  [[nodiscard]] std::uint64_t flops() const {
    return (weights.empty() ? 1U : 2U) * static_cast<std::uint64_t>(places.size() * y.extent(1));
  }
  [[nodiscard]] index parts() const { return y.extent(0); }
  void compute(index m) const {
    using A = accumulate_t<T>;
    for (index n = 0; n < y.extent(1); ++n) {
      A total = addend.empty() ? A(0) : A(addend(m, n));
      for (index c = 0; c < places.extent(1); ++c)
        if (index const place = places(m, c); place >= 0)
          total += (weights.empty() ? A(1) : weights(m, c)) * A(x(place, n));
      y(m, n) = static_cast<T>(total);
    }
  }
};

/// combine_rows(s, y, x, places, weights, addend): y[m,:] = addend[m,:] + Σ_c weights[m,c]
/// x[places[m,c],:] for y [M,D], x [N,D], places and weights [M,K]. Without weights they are 1;
/// the addend may be empty too. Sums are rounded once.
inline constexpr auto combine_rows =
    []<class Stream, class T>(Stream& s, matrix_view<T> y,
                              std::type_identity_t<matrix_view<T const>> x,
                              matrix_view<std::int32_t const> places,
                              std::type_identity_t<matrix_view<accumulate_t<T> const>> weights = {},
                              std::type_identity_t<matrix_view<T const>> addend = {}) {
      auto constexpr name = "combine_rows";
      detail::require_equal(name, "the width of y", y.extent(1), "that of x", x.extent(1));
      detail::require_equal(name, "the number of rows of places", places.extent(0), "that of y",
                            y.extent(0));
      require(weights.empty() || weights.extents() == places.extents(),
              "ops::combine_rows: weights and places have different extents");
      static_cast<void>(detail::has_addend(name, addend.extents(), y.extents()));
      run_operation(s, combine_rows_arguments<T>{y, x, places, weights, addend});
    };

template <class T>
struct combine_rows_backward_arguments {
  static constexpr char const* name = "combine_rows_backward";
  matrix_view<T> dx;
  matrix_view<accumulate_t<T>> dweights;
  matrix_view<T const> dy;
  matrix_view<T const> x;
  matrix_view<std::int32_t const> places;
  matrix_view<accumulate_t<T> const> weights;

  [[nodiscard]] auto operands() const { return std::tuple(dx, dweights, dy, x, places, weights); }
  [[nodiscard]] std::uint64_t flops() const {
    return 3 * static_cast<std::uint64_t>(places.size() * dy.extent(1));
  }
  [[nodiscard]] index parts() const { return dy.extent(0); }
  void compute(index m) const {
    using A = accumulate_t<T>;
    for (index c = 0; c < places.extent(1); ++c) {
      index const place = places(m, c);
      A product(0);
      for (index n = 0; place >= 0 && n < dy.extent(1); ++n) {
        product += A(dy(m, n)) * A(x(place, n));
        dx(place, n) = static_cast<T>(weights(m, c) * A(dy(m, n)));
      }
      dweights(m, c) = product;
    }
  }
};

/// combine_rows_backward(s, dx, dweights, dy, x, places, weights): dx[places[m,c],:] = weights[m,c]
/// dy[m,:] and dweights[m,c] = dy[m,:] · x[places[m,c],:], 0 for a choice without a place. Other
/// rows of dx stay as they are. dx may be x.
inline constexpr auto combine_rows_backward =
    []<class Stream, class T>(Stream& s, matrix_view<T> dx, matrix_view<accumulate_t<T>> dweights,
                              std::type_identity_t<matrix_view<T const>> dy,
                              std::type_identity_t<matrix_view<T const>> x,
                              matrix_view<std::int32_t const> places,
                              std::type_identity_t<matrix_view<accumulate_t<T> const>> weights) {
      auto constexpr name = "combine_rows_backward";
      detail::require_equal(name, "the width of dy", dy.extent(1), "that of x", x.extent(1));
      detail::require_equal(name, "the number of rows of dx", dx.extent(0), "that of x",
                            x.extent(0));
      detail::require_equal(name, "the number of rows of places", places.extent(0), "that of dy",
                            dy.extent(0));
      require(weights.extents() == places.extents() && dweights.extents() == places.extents(),
              "ops::combine_rows_backward: weights, their gradients and places have different "
              "extents");
      run_operation(s, combine_rows_backward_arguments<T>{dx, dweights, dy, x, places, weights});
    };

}  // namespace parallel::ops
