// Ring attention: keys and values circulate among the ranks of the context axis while each
// computes.
//
// Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context",
// 2023. Every rank holds its queries; it receives the keys of all other ranks in n-1 shifts, each
// of which starts before the rank attends to the keys that it holds. In the backward pass the keys
// circulate again. The gradients of keys follow them one step behind, each rank adds its addend,
// and they return to their owner after n shifts. With a window, distances along the ring at which
// no rank sees a key are skipped: shifts are longer and fewer. Sent per rank, where the circulating
// keys are [local rows, W] and m of the n distances are visible: forward (m-1) keys, backward (m-1)
// keys and m gradients of keys (in accumulate_t); nothing when m is 1. Temporary memory of a pass:
// two more sets of keys, and backward two sets of gradients.
//
// A *core* defines the attention itself: what one run of local queries does with one run of keys of
// some rank. Softmax attention is one core (parallel/context_parallel/attention_core.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <vector>

#include <parallel/context_parallel/sequence_partition.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::context_parallel {

/// The ranks that hold other parts of the same sequences.
template <class Comm>
using group = axis_group<axis::context, Comm>;

/// - keys(c): the circulating keys, [local rows, W], contiguous.
/// - window(): the number of keys before its own position that a query sees; negative: all.
/// - forward(c, queries, keys, rows): attends from a run of the local queries to a run of the rows
///   of keys of some rank, and accumulates with the earlier results.
/// - backward(c, queries, keys, rows, d_rows): the gradients of the same pair, added to those of
/// the
///   queries, which the core holds, and to d_rows.
template <class Core, class Stream>
concept ring_core = requires(Core& core, context<Stream>& c, run const& r,
                             matrix_view<typename Core::element const> rows,
                             matrix_view<accumulate_t<typename Core::element>> d_rows) {
  { core.keys(c) } -> std::convertible_to<matrix_view<typename Core::element const>>;
  { core.window() } -> std::convertible_to<index>;
  core.forward(c, r, r, rows);
  core.backward(c, r, r, rows, d_rows);
};

namespace detail {

/// Whether a query of one run sees a key of the other under the causal mask and the window.
[[nodiscard]] constexpr bool sees(run const& queries, run const& keys, index window) {
  index const nearest = queries.position - (keys.position + keys.count - 1);
  return keys.position < queries.position + queries.count && (window < 0 || nearest <= window);
}

/// Calls f(local queries, keys of rank `source`, rows) for the pairs of runs that see each other.
template <class Core, class Stream, class Comm, class F>
void for_each_pair(context<Stream> const& c, group<Comm> const& ranks, Core const& core, int source,
                   F&& f) {
  sequence_partition const own_partition(ranks.rank(), ranks.size(), c);
  sequence_partition const key_partition(source, ranks.size(), c);
  for (int q = 0; q < own_partition.runs(); ++q)
    for (int k = 0; k < key_partition.runs(); ++k)
      if (sees(own_partition.run_at(q), key_partition.run_at(k), core.window()))
        f(own_partition.run_at(q), key_partition.run_at(k));
}

/// The distances d at which at least one of `ranks` ranks sees keys of the rank d places before it,
/// in ascending order: the same on all ranks. Without a window these are all distances.
[[nodiscard]] inline std::vector<int> visible_distances(int ranks, index whole, index window) {
  auto const is_visible = [&](int distance) {
    for (int rank = 0; rank < ranks; ++rank) {
      sequence_partition const own_partition(rank, ranks, whole);
      sequence_partition const key_partition((rank + ranks - distance) % ranks, ranks, whole);
      for (int q = 0; q < own_partition.runs(); ++q)
        for (int k = 0; k < key_partition.runs(); ++k)
          if (sees(own_partition.run_at(q), key_partition.run_at(k), window)) return true;
    }
    return false;
  };
  std::vector<int> out;
  for (int distance = 0; distance < ranks; ++distance)
    if (window < 0 || is_visible(distance)) out.push_back(distance);
  return out;
}

/// The keys of one rank after another, beginning with this rank's.
template <class T, class Stream, class Comm>
class key_ring {
 public:
  key_ring(context<Stream>& c, group<Comm> const& ranks, matrix_view<T const> own_keys,
           index window)
      : c_(c),
        ranks_(ranks),
        distances_(visible_distances(ranks.size(), c.whole_sequence(), window)),
        current_(own_keys) {
    sequence_partition(ranks.rank(), ranks.size(), c).check(c);
    for (std::size_t i = 0; i < std::min<std::size_t>(2, steps() - 1); ++i)
      buffers_[i] = c.template allocate<T, 2>(own_keys.extents());
  }

  [[nodiscard]] std::size_t steps() const { return distances_.size(); }

  /// Returns the keys of this step, which are those of rank source(), and starts the next transfer.
  [[nodiscard]] matrix_view<T const> begin_step() {
    if (step_ + 1 < steps())
      transfer_ = ranks_.shift(c_.stream, next_buffer().span(), current_.span(), stride());
    return current_;
  }
  [[nodiscard]] int source() const {
    return (ranks_.rank() + ranks_.size() - distances_[step_]) % ranks_.size();
  }
  /// The number of ranks by which the keys, or their gradients, move after this step. After the
  /// last step they move to their owner.
  [[nodiscard]] int stride() const {
    return (step_ + 1 < steps() ? distances_[step_ + 1] : ranks_.size()) - distances_[step_];
  }

  void end_step() {
    transfer_.wait_on(c_.stream);
    current_ = next_buffer();
    ++step_;
  }

 private:
  [[nodiscard]] matrix_view<T> next_buffer() const { return buffers_[step_ % 2]; }

  context<Stream>& c_;
  group<Comm> const& ranks_;
  std::vector<int> distances_;
  matrix_view<T const> current_;
  std::array<matrix_view<T>, 2> buffers_;
  typename group<Comm>::exchange_type transfer_;
  std::size_t step_ = 0;
};

}  // namespace detail

/// Attends from all local queries to all keys of the sequences.
template <class Core, class Stream, class Comm>
requires ring_core<Core, Stream>
void ring_forward(context<Stream>& c, group<Comm> const& ranks, Core& core) {
  arena::scope const temporaries(c.memory);
  using T = typename Core::element;
  detail::key_ring<T, Stream, Comm> ring(c, ranks, core.keys(c), core.window());
  for (std::size_t step = 0; step < ring.steps(); ++step) {
    auto const rows = ring.begin_step();
    detail::for_each_pair(c, ranks, core, ring.source(),
                          [&](run const& q, run const& k) { core.forward(c, q, k, rows); });
    ring.end_step();
  }
}

/// Computes the gradients of the local queries, in the core, and those of the local keys, in d_keys
/// [local rows, W].
template <class Core, class Stream, class Comm>
requires ring_core<Core, Stream>
void ring_backward(context<Stream>& c, group<Comm> const& ranks, Core& core,
                   matrix_view<accumulate_t<typename Core::element>> d_keys) {
  using T = typename Core::element;
  using A = accumulate_t<T>;
  arena::scope const temporaries(c.memory);
  detail::key_ring<T, Stream, Comm> ring(c, ranks, core.keys(c), core.window());
  bool const is_single_step = ring.steps() == 1;
  // the addend of this step, and the partial sum of the step before, which is being sent
  std::array<matrix_view<A>, 2> sums{d_keys, d_keys};
  if (!is_single_step)
    for (auto& sum : sums) sum = c.template allocate<A, 2>(d_keys.extents());
  typename group<Comm>::exchange_type incoming_sum;  // into d_keys
  for (std::size_t step = 0; step < ring.steps(); ++step) {
    auto const rows = ring.begin_step();
    auto const sum = sums[step % 2];
    ops::fill(c.stream, sum.span(), A(0));
    detail::for_each_pair(c, ranks, core, ring.source(),
                          [&](run const& q, run const& k) { core.backward(c, q, k, rows, sum); });
    if (step > 0) {
      incoming_sum.wait_on(c.stream);
      ops::add(c.stream, sum.span(), d_keys.span());
    }
    if (!is_single_step)
      incoming_sum = ranks.shift(c.stream, d_keys.span(), sum.span(), ring.stride());
    ring.end_step();
  }
  incoming_sum.wait_on(c.stream);
}

}  // namespace parallel::context_parallel
