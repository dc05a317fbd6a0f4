// grouped_matmul: the products of all experts' rows with their weights, in one operation.
//
// Rows are in the order of ops/experts/expert_order.hpp: in each block those of expert 0, then
// those of expert 1, and so on. Weights of G experts are one matrix of G equal groups of rows. The
// counts are in the device's memory, so nobody waits for them; rows after the last of a block take
// no part. Sums are as in ops/matmul.hpp. Source: MegaBlocks (Gale et al., 2022, arXiv 2211.15841).
// Cost: 2 n r w operations for n rows of width w and r weight rows an expert, counted for full
// blocks.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::ops {

namespace detail {

/// The rows of one expert in one block.
struct expert_segment {
  index expert;
  index begin;
  index end;
};

/// Segment `part` of those that `ends` [P,G] describes in P blocks of `rows` rows in total.
[[nodiscard]] inline expert_segment segment_of(matrix_view<std::int32_t const> ends, index rows,
                                               index part) {
  index const experts = ends.extent(1), block = part / experts, expert = part % experts;
  index const first = block * (rows / ends.extent(0));
  index const begin = expert > 0 ? ends(block, expert - 1) : 0;
  return {expert, first + begin, first + ends(block, expert)};
}

}  // namespace detail

struct grouped_matmul_options {
  bool transpose_b = false;  ///< the weights of an expert are stored [out, in]
  bool accumulate = false;   ///< add to C instead of replacing it
};

template <class T>
struct grouped_matmul_arguments {
  static constexpr char const* name = "grouped_matmul";
  matrix_view<T> c;
  matrix_view<T const> a;
  matrix_view<T const> b;
  matrix_view<std::int32_t const> ends;
  grouped_matmul_options options;

  [[nodiscard]] auto operands() const {
    return std::tuple(options.accumulate ? meta::access_of(updates(c)) : meta::access_of(c), a, b,
                      ends);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(c.size()) * static_cast<std::uint64_t>(a.extent(1));
  }
  [[nodiscard]] index parts() const { return ends.size(); }
  /// The product of one expert's rows in one block.
  [[nodiscard]] matmul_arguments<T, T> product(index part) const {
    auto const segment = detail::segment_of(ends, a.extent(0), part);
    index const group = b.extent(0) / ends.extent(1);
    auto const to = c.slice(segment.begin, segment.end);
    return {to,
            a.slice(segment.begin, segment.end),
            b.slice(segment.expert * group, (segment.expert + 1) * group),
            {.transpose_b = options.transpose_b, .accumulate = options.accumulate},
            options.accumulate ? matrix_view<T const>(to) : matrix_view<T const>{}};
  }
  void compute(index part) const { ops::compute(product(part)); }
};

/// grouped_matmul(s, c, a, b, ends, {.transpose_b, .accumulate}): c[rows of e,:] = a[rows of e,:]
/// op(b_e), or c plus that, where b_e is group e of b's G groups of rows: [r,w], or its transpose.
/// c [N,·], a [N,·], ends [P,G] as expert_order gives it. Rows that belong to no expert stay as
/// they are.
inline constexpr auto grouped_matmul =
    []<class Stream, class T>(
        Stream& s, matrix_view<T> c, std::type_identity_t<matrix_view<T const>> a,
        std::type_identity_t<matrix_view<T const>> b, matrix_view<std::int32_t const> ends,
        grouped_matmul_options options = {}) {
      auto constexpr name = "grouped_matmul";
      detail::require_equal(name, "the number of rows of C", c.extent(0), "that of A", a.extent(0));
      require(b.extent(0) % ends.extent(1) == 0 && a.extent(0) % ends.extent(0) == 0,
              "ops::grouped_matmul: ", b.extent(0), " rows of weights and ", a.extent(0),
              " rows are not divided equally by ", ends.extent(1), " experts and ", ends.extent(0),
              " blocks");
      index const group = b.extent(0) / ends.extent(1);
      detail::require_equal(name, "the number of columns of A", a.extent(1),
                            "the depth of an expert's weights",
                            options.transpose_b ? b.extent(1) : group);
      detail::require_equal(name, "the number of columns of C", c.extent(1),
                            "the width of an expert's weights",
                            options.transpose_b ? group : b.extent(1));
      run_operation(s, grouped_matmul_arguments<T>{c, a, b, ends, options});
    };

template <class T>
struct grouped_matmul_weight_arguments {
  static constexpr char const* name = "grouped_matmul_weight";
  matrix_view<accumulate_t<T>> c;
  matrix_view<T const> a;
  matrix_view<T const> b;
  matrix_view<std::int32_t const> ends;
  bool accumulate;

  [[nodiscard]] auto operands() const {
    return std::tuple(accumulate ? meta::access_of(updates(c)) : meta::access_of(c), a, b, ends);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(a.size()) * static_cast<std::uint64_t>(b.extent(1));
  }
  [[nodiscard]] index parts() const { return ends.extent(1); }
  /// Calls f(product) for the products that add up to one expert's gradient, in their order.
  template <class F>
  void for_each_product(index expert, F const& f) const {
    index const group = c.extent(0) / ends.extent(1);
    auto const to = c.slice(expert * group, (expert + 1) * group);
    for (index block = 0; block < ends.extent(0); ++block) {
      auto const segment = detail::segment_of(ends, a.extent(0), block * ends.extent(1) + expert);
      bool const adds = accumulate || block > 0;
      f(matmul_arguments<accumulate_t<T>, T>{
          to,
          a.slice(segment.begin, segment.end),
          b.slice(segment.begin, segment.end),
          {.transpose_a = true, .accumulate = adds},
          adds ? matrix_view<accumulate_t<T> const>(to) : matrix_view<accumulate_t<T> const>{}});
    }
  }
  void compute(index expert) const {
    for_each_product(expert, [](auto const& product) { ops::compute(product); });
  }
};

/// grouped_matmul_weight(s, c, a, b, ends, accumulate): c_e = a[rows of e,:]ᵀ b[rows of e,:], or
/// c_e plus that, for every expert e; c [G r,w], a [N,r], b [N,w]. An expert without rows gets
/// zeros.
inline constexpr auto grouped_matmul_weight =
    []<class Stream, class T>(Stream& s, matrix_view<accumulate_t<std::remove_const_t<T>>> c,
                              matrix_view<T> a,
                              std::type_identity_t<matrix_view<std::remove_const_t<T> const>> b,
                              matrix_view<std::int32_t const> ends, bool accumulate) {
      auto constexpr name = "grouped_matmul_weight";
      using element = std::remove_const_t<T>;
      detail::require_equal(name, "the number of rows of A", a.extent(0), "that of B", b.extent(0));
      detail::require_equal(name, "the number of rows of C", c.extent(0),
                            "experts times columns of A", ends.extent(1) * a.extent(1));
      detail::require_equal(name, "the number of columns of C", c.extent(1), "that of B",
                            b.extent(1));
      require(a.extent(0) % ends.extent(0) == 0, "ops::grouped_matmul_weight: ", a.extent(0),
              " rows are not divided equally by ", ends.extent(0), " blocks");
      run_operation(s, grouped_matmul_weight_arguments<element>{c, matrix_view<element const>(a), b,
                                                                ends, accumulate});
    };

}  // namespace parallel::ops
