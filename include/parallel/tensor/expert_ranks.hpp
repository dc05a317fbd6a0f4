// expert_ranks: the ranks among which the rows and experts of a mixture are divided.
#pragma once

#include <span>

#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>

namespace parallel::tensor {

template <class Comm>
struct expert_ranks {
  axis_group<axis::context, Comm> context;  ///< they hold other rows of the same sequences

  /// As single_expert_rank::add_over_rows.
  template <class Stream, class A>
  void add_over_rows(Stream& compute, std::span<A> counts) const {
    if (!context.is_single_rank()) context.all_reduce(compute, counts);
  }
};

}  // namespace parallel::tensor
