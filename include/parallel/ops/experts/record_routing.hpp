// record_routing: what a report says of one router in one microbatch, added to a record in memory
// that host and device reach: the choices of each expert, the values of the router's losses, the
// entropy of its scores, the choices that were dropped, and the rows. Cost: one pass over the
// scores by one thread, with a logarithm each.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

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
  void compute() const {
    index const rows = scores.extent(0);
    for (index i = 0; i < experts.size(); ++i)
      record[static_cast<std::size_t>(experts.data()[i])] += 1.0;
    for (index m = 0; m < rows; ++m) add_row(m);
    number(routing_number::dropped) += static_cast<double>(lost(0));
    number(routing_number::overflowed) += static_cast<double>(lost(1));
    number(routing_number::rows) += static_cast<double>(rows);
  }

 private:
  [[nodiscard]] double& number(routing_number which) const {
    return record[static_cast<std::size_t>(scores.extent(1)) + static_cast<std::size_t>(which)];
  }
  void add_row(index m) const {
    index const rows = scores.extent(0), all = scores.extent(1);
    double total = 0.0, logarithms = 0.0, balance = 0.0;
    for (index e = 0; e < all; ++e) {
      auto const score = static_cast<double>(scores(m, e));
      total += score;
      if (score > 0.0) logarithms += score * std::log(score);
      if (!slopes.empty())
        balance += static_cast<double>(slopes(m / (rows / slopes.extent(0)), e)) * score;
    }
    if (total > 0.0) number(routing_number::entropy) += std::log(total) - logarithms / total;
    number(routing_number::balance_loss) += balance;
    if constexpr (!std::is_integral_v<A>)
      if (!z_slopes.empty()) {
        double const size = detail::softmax_terms::from_row(logits.data() + m * all, all).log_sum();
        number(routing_number::z_loss) +=
            static_cast<double>(z_slopes(m / (rows / z_slopes.extent(0)))) * size * size;
      }
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
