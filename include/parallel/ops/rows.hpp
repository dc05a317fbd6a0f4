// Operations on a flat range anywhere in a matrix of rows: sums of squares by row, and scaling by
// row. The range may begin and end within a row, as a shard of a parameter does.
//
// T is float, bf16 or double. Sums are in double; within a row, their order depends on the range
// alone. Cost: one pass.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// The location of a range: its first element is element `first` of a matrix with rows of `width`.
struct rows_location {
  index first = 0;
  index width = 1;

  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr index row_of(index element) const {
    return (first + element) / width;
  }
  /// The end of the row that contains `element`, as an index in a range of `size` elements.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr index end_of_row(index element, index size) const {
    index const end = (row_of(element) + 1) * width - first;
    return end < size ? end : size;
  }
};

namespace detail {

inline void check_location(std::string_view operation, rows_location const& location) {
  require(location.first >= 0 && location.width >= 1, "ops::", operation, ": begins at element ",
          location.first, " of rows of ", location.width);
}

/// The length that an array with one entry per row needs for a range of `size` elements.
[[nodiscard]] constexpr index rows_needed(rows_location const& location, index size) {
  return size == 0 ? 0 : location.row_of(size - 1) + 1;
}

}  // namespace detail

template <class T>
struct row_squared_norms_arguments {
  static constexpr char const* name = "row_squared_norms";
  std::span<double> out;
  std::span<T const> x;
  rows_location location;

  [[nodiscard]] std::uint64_t flops() const { return 2 * x.size(); }
  /// The rows that the range overlaps.
  [[nodiscard]] index parts() const {
    return x.empty() ? 0 : detail::rows_needed(location, std::ssize(x)) - location.row_of(0);
  }
  void compute(index part) const {
    index const row = location.row_of(0) + part;
    double& total = out[static_cast<std::size_t>(row)];
    index const begin = std::max<index>(0, row * location.width - location.first);
    for (index i = begin; i < location.end_of_row(begin, std::ssize(x)); ++i) {
      auto const value = static_cast<double>(x[static_cast<std::size_t>(i)]);
      total += value * value;
    }
  }
};

/// row_squared_norms(s, out, x, location): out[r] += sum of x[i]^2 over the elements in row r.
inline constexpr auto row_squared_norms = []<class Stream, class T>(
                                              Stream& s, std::span<double> out, std::span<T> x,
                                              rows_location location) {
  detail::check_location("row_squared_norms", location);
  require(std::ssize(out) >= detail::rows_needed(location, std::ssize(x)),
          "ops::row_squared_norms: out has ", out.size(), " rows, but x reaches row ",
          detail::rows_needed(location, std::ssize(x)) - 1);
  run_operation(s, row_squared_norms_arguments<std::remove_const_t<T>>{
                       out, std::span<std::remove_const_t<T> const>(x), location});
};

template <class T>
struct scale_rows_arguments {
  static constexpr char const* name = "scale_rows";
  std::span<T> x;
  std::span<accumulate_t<T> const> factors;
  rows_location location;

  [[nodiscard]] std::uint64_t flops() const { return x.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(x); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    detail::for_each_in_run(part, x, [&](std::size_t i) {
      auto const row = static_cast<std::size_t>(location.row_of(static_cast<index>(i)));
      x[i] = static_cast<T>(A(x[i]) * factors[row]);
    });
  }
};

/// scale_rows(s, x, factors, location): x[i] *= factors[row of i].
inline constexpr auto scale_rows =
    []<class Stream, class T>(Stream& s, std::span<T> x, std::span<accumulate_t<T> const> factors,
                              rows_location location) {
      detail::check_location("scale_rows", location);
      require(std::ssize(factors) >= detail::rows_needed(location, std::ssize(x)),
              "ops::scale_rows: there are ", factors.size(), " factors, but x reaches row ",
              detail::rows_needed(location, std::ssize(x)) - 1);
      run_operation(s, scale_rows_arguments<T>{x, factors, location});
    };

}  // namespace parallel::ops
