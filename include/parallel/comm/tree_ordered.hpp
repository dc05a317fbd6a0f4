// tree_ordered: a communicator that sums by an aligned binary tree instead of in rank order.
//
// A tree over the ranks continues the tree over each rank's own leaves (tree_accumulator): a sum of
// microbatches has the bits of one tree over all of them, whatever number of ranks holds them, as
// long as every rank contributes the same power of two of consecutive microbatches. The operations
// are the backend's own, with the volume of a ring and the same memory as in rank order.
// Recursive halving (partners r^1, r^2, r^4, ...) would give the same bits and volume in log2 n
// rounds, but for powers of two only, and its shards come out in bit-reversed order.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

template <has_submit Inner>
class tree_ordered : public forwarding<tree_ordered<Inner>, Inner, typename Inner::stream_type> {
  using base = forwarding<tree_ordered, Inner, typename Inner::stream_type>;

 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;

  /// Owns `inner`. All ranks must use it, or none.
  explicit tree_ordered(Inner inner) : base(std::move(inner)) {}

  /// Enqueues `op`; sums of all_reduce and reduce_scatter become `reduction::tree_sum`.
  request_type submit(stream_type& s, operation const& op) { return inner_.submit(s, ordered(op)); }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* s = nullptr) {
    return inner_.open_exchange(s);
  }

  /// See `has_split`.
  [[nodiscard]] tree_ordered split(coloring const& colors,
                                   std::string name = {}) requires has_split<Inner> {
    return tree_ordered(inner_.split(colors, std::move(name)));
  }

 private:
  [[nodiscard]] static operation ordered(operation op) {
    if (combines(op.kind) && op.combine == reduction::sum) op.combine = reduction::tree_sum;
    if (op.kind == operation_kind::group) {
      auto members = *op.members;
      for (operation& member : members) member = ordered(member);
      op.members = std::make_shared<std::vector<operation> const>(std::move(members));
    }
    return op;
  }

  using base::inner_;
};

}  // namespace parallel
