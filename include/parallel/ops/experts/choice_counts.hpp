// choice_counts: how often the rows of each set have chosen each expert.
//
// A set is a sequence or a microbatch: the rows over which a balancing loss takes its means
// (layer/router.hpp). Counts are numbers of the type in which gradients accumulate, so that ranks
// add them and a loss multiplies them; in float they are exact up to 2^24. Cost: one pass over the
// choices by one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

template <class A>
struct choice_counts_arguments {
  static constexpr char const* name = "choice_counts";
  matrix_view<A> counts;
  matrix_view<std::int32_t const> experts;

  [[nodiscard]] auto operands() const { return std::tuple(counts, experts); }
  [[nodiscard]] index parts() const { return counts.extent(0); }
  void compute(index set) const {
    auto const row = counts.slice(set, set + 1);
    std::fill_n(row.data(), row.size(), A(0));
    index const rows = experts.extent(0) / counts.extent(0);
    auto const choices = experts.slice(set * rows, (set + 1) * rows);
    for (index i = 0; i < choices.size(); ++i) row.data()[choices.data()[i]] += A(1);
  }
};

/// choice_counts(s, counts, experts): counts [S,E] of the choices [M,K] of M/S consecutive rows
/// each.
inline constexpr auto choice_counts = []<class Stream, class A>(
                                          Stream& s, matrix_view<A> counts,
                                          matrix_view<std::int32_t const> experts) {
  require(counts.extent(0) > 0 && experts.extent(0) % counts.extent(0) == 0,
          "ops::choice_counts: ", experts.extent(0), " rows are not divided equally by ",
          counts.extent(0), " sets");
  run_operation(s, choice_counts_arguments<A>{counts, experts});
};

}  // namespace parallel::ops
