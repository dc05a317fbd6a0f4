// tree_ordered: a communicator that sums by an aligned binary tree instead of in rank order.
//
// A tree over the ranks goes on where a tree over each rank's own leaves ends (tree_accumulator):
// the bits of a sum of microbatches are then those of one tree over all of them, whatever number of
// ranks holds them, as long as every rank brings the same power of two of consecutive ones. The
// operations are the backend's own, at ring volume and with the same memory as in rank order.
// Recursive halving (partners r^1, r^2, r^4, ...) would give the same bits and volume in log2 n
// rounds, but for powers of two only, and its shards come out in bit-reversed order.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>

namespace parallel {

template <has_submit Inner>
class tree_ordered : public collectives<tree_ordered<Inner>, typename Inner::stream_type> {
 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;

  /// Owns `inner`. All ranks must use it, or none.
  explicit tree_ordered(Inner inner) : inner_(std::move(inner)) {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] int world_rank(int rank) const { return inner_.world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return inner_.name(); }
  void abort(std::string const& reason) { inner_.abort(reason); }

  /// Enqueues `op`; sums of all_reduce and reduce_scatter become `reduction::tree_sum`.
  request_type submit(stream_type& s, operation const& op) {
    operation ordered = op;
    if (combines(op.kind) && op.combine == reduction::sum) ordered.combine = reduction::tree_sum;
    return inner_.submit(s, ordered);
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* on = nullptr) {
    return inner_.open_exchange(on);
  }

  /// See `has_split`.
  [[nodiscard]] tree_ordered split(int color, std::string name = {}) requires has_split<Inner> {
    return tree_ordered(inner_.split(color, std::move(name)));
  }

 private:
  Inner inner_;
};

}  // namespace parallel
