// Operations on a flat range that lies anywhere inside a matrix of rows: sums of squares by row,
// and scaling by row. The range may begin and end within a row, as a shard of a parameter does.
//
// T is float, bf16 or double. Sums are taken in double, within a row in an order that depends on
// the range alone. Cost: one pass.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// Where a range lies: its first element is element `first` of a matrix with rows of `width`.
struct rows_place {
  index first = 0;
  index width = 1;

  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr index row_of(index element) const {
    return (first + element) / width;
  }
  /// Where the row that `element` is in ends, as an element of a range of `size`.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr index end_of_row(index element, index size) const {
    index const end = (row_of(element) + 1) * width - first;
    return end < size ? end : size;
  }
};

namespace detail {

inline void check_place(std::string_view operation, rows_place const& place) {
  require(place.first >= 0 && place.width >= 1, "ops::", operation, ": begins at element ",
          place.first, " of rows of ", place.width);
}

/// The number of rows a range of `size` must find in an array by row.
[[nodiscard]] constexpr index rows_needed(rows_place const& place, index size) {
  return size == 0 ? 0 : place.row_of(size - 1) + 1;
}

}  // namespace detail

template <class T>
struct row_squared_norms_arguments {
  static constexpr char const* name = "row_squared_norms";
  std::span<double> out;
  std::span<T const> x;
  rows_place place;

  [[nodiscard]] std::uint64_t flops() const { return 2 * x.size(); }
  /// The rows that it reaches.
  [[nodiscard]] index parts() const {
    return x.empty() ? 0 : detail::rows_needed(place, std::ssize(x)) - place.row_of(0);
  }
  void compute(index part) const {
    index const row = place.row_of(0) + part;
    double& total = out[static_cast<std::size_t>(row)];
    index const begin = std::max<index>(0, row * place.width - place.first);
    for (index i = begin; i < place.end_of_row(begin, std::ssize(x)); ++i) {
      auto const value = static_cast<double>(x[static_cast<std::size_t>(i)]);
      total += value * value;
    }
  }
};

struct row_squared_norms_fn {
  template <class Stream, class T>
  void operator()(Stream& s, std::span<double> out, std::span<T> x, rows_place place) const {
    detail::check_place("row_squared_norms", place);
    require(std::ssize(out) >= detail::rows_needed(place, std::ssize(x)),
            "ops::row_squared_norms: out has ", out.size(), " rows, but x reaches row ",
            detail::rows_needed(place, std::ssize(x)) - 1);
    run_operation(s, row_squared_norms_arguments<std::remove_const_t<T>>{
                         out, std::span<std::remove_const_t<T> const>(x), place});
  }
};
/// row_squared_norms(s, out, x, place): out[r] += sum of x[i]^2 over the elements in row r.
inline constexpr row_squared_norms_fn row_squared_norms{};

template <class T>
struct scale_rows_arguments {
  static constexpr char const* name = "scale_rows";
  std::span<T> x;
  std::span<accumulate_t<T> const> factors;
  rows_place place;

  [[nodiscard]] std::uint64_t flops() const { return x.size(); }
  [[nodiscard]] index parts() const { return detail::runs_of(x); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    detail::for_run(part, x, [&](std::size_t i) {
      auto const row = static_cast<std::size_t>(place.row_of(static_cast<index>(i)));
      x[i] = static_cast<T>(A(x[i]) * factors[row]);
    });
  }
};

struct scale_rows_fn {
  template <class Stream, class T>
  void operator()(Stream& s, std::span<T> x, std::span<accumulate_t<T> const> factors,
                  rows_place place) const {
    detail::check_place("scale_rows", place);
    require(std::ssize(factors) >= detail::rows_needed(place, std::ssize(x)),
            "ops::scale_rows: there are ", factors.size(), " factors, but x reaches row ",
            detail::rows_needed(place, std::ssize(x)) - 1);
    run_operation(s, scale_rows_arguments<T>{x, factors, place});
  }
};
/// scale_rows(s, x, factors, place): x[i] *= factors[row of i].
inline constexpr scale_rows_fn scale_rows{};

}  // namespace parallel::ops
