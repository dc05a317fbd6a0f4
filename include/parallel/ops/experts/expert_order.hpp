// expert_order: the place of every choice of a row among the rows of its expert.
//
// A row is copied once for each expert that it has chosen, and the copies are ordered by expert,
// those of one expert by row, so that the rows of an expert are one after the other. The buffer of
// the copies has equal blocks of `rows` places, one for each of the ranks that share the experts:
// rank q has the experts from q E/P on. Without such ranks there is one block.
//
// A choice gets no place where its expert has `capacity` rows of the same sequence already
// (Lepikhin et al., 2020, arXiv 2006.16668, section 3.2, there by group), or where its block is
// full; both are counted. Cost: one pass over the choices by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct expert_order_options {
  index block_rows = 0;  ///< places of a block
  index sequence = 1;    ///< rows of a sequence
  index capacity = 0;    ///< rows of one sequence that an expert takes; 0: all
};

/// The largest number of experts of a layer.
inline constexpr index largest_expert_count = 1024;

struct expert_order_arguments {
  static constexpr char const* name = "expert_order";
  matrix_view<std::int32_t> places;
  matrix_view<std::int32_t> ends;
  vector_view<std::int32_t> lost;
  matrix_view<std::int32_t const> experts;
  expert_order_options options;

  [[nodiscard]] auto operands() const { return std::tuple(places, ends, lost, experts); }
  void compute() const {
    std::fill_n(ends.data(), ends.size(), 0);
    std::fill_n(lost.data(), lost.size(), 0);
    count();
    for (index block = 0; block < ends.extent(0); ++block)
      for (index e = 1; e < ends.extent(1); ++e) ends(block, e) += ends(block, e - 1);
    for (index m = 0; m < experts.extent(0); ++m)
      for (index c = 0; c < experts.extent(1); ++c) place(m, c);
    for (index block = 0; block < ends.extent(0); ++block)
      for (index e = 0; e < ends.extent(1); ++e)
        ends(block, e) = std::min(ends(block, e), static_cast<std::int32_t>(options.block_rows));
  }

 private:
  /// Counts the rows of each expert, and gives each choice the number of those before it.
  void count() const {
    auto* const counts = ends.data();
    std::int32_t of_sequence[largest_expert_count] = {};
    for (index m = 0; m < experts.extent(0); ++m) {
      if (m % options.sequence == 0) std::fill_n(of_sequence, ends.size(), 0);
      for (index c = 0; c < experts.extent(1); ++c) {
        index const expert = experts(m, c);
        bool const is_dropped = options.capacity > 0 && of_sequence[expert]++ >= options.capacity;
        places(m, c) = is_dropped ? -1 : counts[expert]++;
        if (is_dropped) ++lost(0);
      }
    }
  }
  /// Turns the number of earlier rows of the same expert into a place.
  void place(index m, index c) const {
    if (places(m, c) < 0) return;
    index const expert = experts(m, c), block = expert / ends.extent(1);
    std::int32_t const begin = expert % ends.extent(1) == 0 ? 0 : ends.data()[expert - 1];
    index const row = places(m, c) + begin;
    bool const is_lost = row >= options.block_rows;
    places(m, c) = is_lost ? -1 : static_cast<std::int32_t>(block * options.block_rows + row);
    if (is_lost) ++lost(1);
  }
};

/// expert_order(s, places, ends, lost, experts, options): places [M,K] in a buffer of P blocks, -1
/// for a choice that has none; ends [P,E/P], counted from the block's first place, the place
/// after the last row of each expert; lost [2], the choices without a place because of the capacity
/// and because of a full block; experts [M,K].
inline constexpr auto expert_order =
    []<class Stream>(Stream& s, matrix_view<std::int32_t> places, matrix_view<std::int32_t> ends,
                     vector_view<std::int32_t> lost, matrix_view<std::int32_t const> experts,
                     expert_order_options options) {
      auto constexpr name = "expert_order";
      detail::require_equal(name, "the number of rows of places", places.extent(0),
                            "that of experts", experts.extent(0));
      detail::require_equal(name, "the number of columns of places", places.extent(1),
                            "that of experts", experts.extent(1));
      detail::require_equal(name, "the size of lost", lost.extent(0), "the number of reasons", 2);
      require(ends.size() <= largest_expert_count, "ops::expert_order: ", ends.size(),
              " experts; at most ", largest_expert_count, " are possible");
      require(options.sequence >= 1, "ops::expert_order: sequences of ", options.sequence,
              " rows; a sequence has at least one");
      constexpr index largest_place = std::numeric_limits<std::int32_t>::max();
      require(options.block_rows <= largest_place / std::max<index>(1, ends.extent(0)) &&
                  experts.size() <= largest_place,
              "ops::expert_order: ", ends.extent(0), " blocks of ", options.block_rows,
              " places; places are numbers up to ", largest_place);
      run_operation(s, expert_order_arguments{places, ends, lost, experts, options});
    };

}  // namespace parallel::ops
