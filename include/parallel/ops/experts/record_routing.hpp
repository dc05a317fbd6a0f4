// record_routing: what a report says of one router in one microbatch, added to a record in memory
// that host and device reach: the choices of each expert, the values of the router's losses, the
// entropy of its scores, the choices that were dropped, and the rows. Cost: one pass over the
// scores by one thread, with a logarithm each.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// The numbers of a router's record after the choices of each expert.
enum class routing_number : std::uint8_t {
  balance_loss,
  z_loss,
  entropy,
  dropped,     ///< choices for which an expert had no room in its capacity
  overflowed,  ///< choices for which a rank of experts had no room in its buffer
  rows
};
inline constexpr index routing_number_count = 6;

/// The numbers of the record of a router of this many experts.
[[nodiscard]] constexpr index routing_record_size(index experts) {
  return experts + routing_number_count;
}

/// Whether the records of routers of this many experts say that a rank of experts lacked room.
[[nodiscard]] inline bool has_overflowed(std::span<double const> records, index experts) {
  auto const size = static_cast<std::size_t>(routing_record_size(experts));
  auto const place =
      static_cast<std::size_t>(experts) + static_cast<std::size_t>(routing_number::overflowed);
  for (std::size_t i = place; i < records.size(); i += size)
    if (records[i] > 0.0) return true;
  return false;
}

namespace detail {

/// What rows add to a record, of those numbers that are not counts.
struct routing_sums {
  double balance = 0.0;
  double z = 0.0;
  double entropy = 0.0;

  PARALLELLM_HOST_DEVICE routing_sums& operator+=(routing_sums const& other) {
    balance += other.balance;
    z += other.z;
    entropy += other.entropy;
    return *this;
  }
};

/// The rows of a router.
template <class A>
struct recorded_rows {
  A const* logits;
  A const* scores;
  A const* slopes;     ///< null: none
  A const* z_slopes;   ///< null: none
  index expert_count;  ///< E
  index set_rows;      ///< rows of a set of `slopes`
  index z_set_rows;    ///< rows of a set of `z_slopes`

  [[nodiscard]] PARALLELLM_HOST_DEVICE routing_sums row(index m) const {
    routing_sums out;
    double total = 0.0, logarithms = 0.0;
    for (index e = 0; e < expert_count; ++e) {
      auto const score = static_cast<double>(scores[m * expert_count + e]);
      total += score;
      if (score > 0.0) logarithms += score * std::log(score);
      if (slopes != nullptr)
        out.balance += static_cast<double>(slopes[m / set_rows * expert_count + e]) * score;
    }
    if (total > 0.0) out.entropy = std::log(total) - logarithms / total;
    if constexpr (!std::is_integral_v<A>)
      if (z_slopes != nullptr) {
        double const size =
            softmax_terms::from_row(logits + m * expert_count, expert_count).log_sum();
        out.z = static_cast<double>(z_slopes[m / z_set_rows]) * size * size;
      }
    return out;
  }
};

/// Adds to the numbers of a record.
PARALLELLM_HOST_DEVICE inline void add_routing(double* numbers, routing_sums const& sums,
                                               index rows, std::int32_t const* lost) {
  numbers[static_cast<index>(routing_number::balance_loss)] += sums.balance;
  numbers[static_cast<index>(routing_number::z_loss)] += sums.z;
  numbers[static_cast<index>(routing_number::entropy)] += sums.entropy;
  numbers[static_cast<index>(routing_number::dropped)] += static_cast<double>(lost[0]);
  numbers[static_cast<index>(routing_number::overflowed)] += static_cast<double>(lost[1]);
  numbers[static_cast<index>(routing_number::rows)] += static_cast<double>(rows);
}

}  // namespace detail

template <class A>
struct record_routing_arguments {
  static constexpr char const* name = "record_routing";
  std::span<double> record;
  matrix_view<A const> logits;
  matrix_view<A const> scores;
  matrix_view<std::int32_t const> experts;
  matrix_view<A const> slopes;
  vector_view<A const> z_slopes;
  vector_view<std::int32_t const> lost;

  [[nodiscard]] auto operands() const {
    return std::tuple(updates(record), logits, scores, experts, slopes, z_slopes, lost);
  }
  [[nodiscard]] detail::recorded_rows<A> rows() const {
    index const count = scores.extent(0);
    return {.logits = logits.data(),
            .scores = scores.data(),
            .slopes = slopes.empty() ? nullptr : slopes.data(),
            .z_slopes = z_slopes.empty() ? nullptr : z_slopes.data(),
            .expert_count = scores.extent(1),
            .set_rows = slopes.empty() ? count : count / slopes.extent(0),
            .z_set_rows = z_slopes.empty() ? count : count / z_slopes.extent(0)};
  }
  void compute() const {
    for (index i = 0; i < experts.size(); ++i)
      record[static_cast<std::size_t>(experts.data()[i])] += 1.0;
    detail::routing_sums sums;
    for (index m = 0; m < scores.extent(0); ++m) sums += rows().row(m);
    detail::add_routing(record.data() + scores.extent(1), sums, scores.extent(0), lost.data());
  }
};

/// record_routing(s, record, logits, scores, experts, slopes, z_slopes, lost): adds to record
/// [routing_record_size(E)]; the others as route, route_backward and expert_order have them.
inline constexpr auto record_routing =
    []<class Stream, class L>(
        Stream& s, std::span<double> record, matrix_view<L> logits,
        std::type_identity_t<matrix_view<std::remove_const_t<L> const>> scores,
        matrix_view<std::int32_t const> experts,
        std::type_identity_t<matrix_view<std::remove_const_t<L> const>> slopes,
        std::type_identity_t<vector_view<std::remove_const_t<L> const>> z_slopes,
        vector_view<std::int32_t const> lost) {
      using A = std::remove_const_t<L>;
      detail::require_equal("record_routing", "the size of the record", record.size(),
                            "that of a router's", routing_record_size(scores.extent(1)));
      run_operation(s, record_routing_arguments<A>{record, matrix_view<A const>(logits), scores,
                                                   experts, slopes, z_slopes, lost});
    };

}  // namespace parallel::ops
