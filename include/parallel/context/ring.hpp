// Ring attention: keys and values travel round the ranks of the context axis while each computes.
//
// Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context",
// 2023. Every rank holds its queries; the keys of all ranks come by in n-1 shifts, each begun
// before the keys that are here are attended to. In the backward pass the keys come by once more,
// and the gradients of keys follow them a step behind, gaining each rank's addend, and are home
// after n shifts. With a window, distances along the ring at which no rank sees a key are passed
// over: shifts are longer and fewer. Sent per rank, keys being all that travels, [rows here, W],
// with m of the n distances in sight: forward (m-1) keys, backward (m-1) keys and m gradients of
// keys (of accumulate_t), nothing when m is 1. Memory for the time of a pass: two more sets of
// keys, and backward two of gradients.
//
// What attention is, is a *core*'s business: what it does with one run of queries here and one run
// of keys of some rank. Softmax attention is one (parallel/context/attention_core.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <type_traits>
#include <vector>

#include <parallel/context/sequence_partition.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::context_parallel {

/// The ranks that hold other parts of the same sequences.
template <class Comm>
using group = axis_group<axis::context, Comm>;

/// - keys(c): what travels, [rows here, W], one element after another.
/// - window(): how many keys before its own position a query sees; negative: all.
/// - forward(c, queries, keys, rows): attends from a run of the queries here to a run of the rows
///   of keys of some rank, in addition to what was attended to before.
/// - backward(c, queries, keys, rows, d_rows): the same pair's gradients, added to those of the
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

/// Whether some query of one run sees some key of the other under the causal mask and the window.
[[nodiscard]] constexpr bool sees(run const& queries, run const& keys, index window) {
  index const nearest = queries.position - (keys.position + keys.count - 1);
  return keys.position < queries.position + queries.count && (window < 0 || nearest <= window);
}

/// Calls f(queries here, keys of rank `source`, rows) for the pairs of runs that see each other.
template <class Core, class Stream, class Comm, class F>
void for_each_pair(context<Stream> const& c, group<Comm> const& ranks, Core const& core, int source,
                   F&& f) {
  sequence_partition const here(ranks.rank(), ranks.size(), c);
  sequence_partition const there(source, ranks.size(), c);
  for (int q = 0; q < here.runs(); ++q)
    for (int k = 0; k < there.runs(); ++k)
      if (sees(here.at(q), there.at(k), core.window())) f(here.at(q), there.at(k));
}

/// The distances at which some of `ranks` ranks sees keys of the rank so many places before it, in
/// ascending order: the same on all of them. Without a window these are all.
[[nodiscard]] inline std::vector<int> distances_in_sight(int ranks, index whole, index window) {
  auto const in_sight = [&](int distance) {
    for (int rank = 0; rank < ranks; ++rank) {
      sequence_partition const here(rank, ranks, whole);
      sequence_partition const there((rank + ranks - distance) % ranks, ranks, whole);
      for (int q = 0; q < here.runs(); ++q)
        for (int k = 0; k < there.runs(); ++k)
          if (sees(here.at(q), there.at(k), window)) return true;
    }
    return false;
  };
  std::vector<int> out;
  for (int distance = 0; distance < ranks; ++distance)
    if (window < 0 || in_sight(distance)) out.push_back(distance);
  return out;
}

/// What comes by: the keys of one rank after another, beginning with this one's.
template <class T, class Stream, class Comm>
class keys_coming_by {
 public:
  keys_coming_by(context<Stream>& c, group<Comm> const& ranks, matrix_view<T const> own,
                 index window)
      : c_(c),
        ranks_(ranks),
        distances_(distances_in_sight(ranks.size(), c.whole_sequence(), window)),
        here_(own) {
    sequence_partition(ranks.rank(), ranks.size(), c).check(c);
    for (std::size_t i = 0; i < std::min<std::size_t>(2, steps() - 1); ++i)
      room_[i] = c.template allocate<T, 2>(own.extents());
  }

  [[nodiscard]] std::size_t steps() const { return distances_.size(); }

  /// The keys of this step, and the rank whose they are. The next are on their way from now on.
  [[nodiscard]] matrix_view<T const> begin_step() {
    if (step_ + 1 < steps())
      moving_ = ranks_.shift(c_.stream, next().span(), here_.span(), stride());
    return here_;
  }
  [[nodiscard]] int source() const {
    return (ranks_.rank() + ranks_.size() - distances_[step_]) % ranks_.size();
  }
  /// How far the keys, or what follows them, go after this step: after the last, home.
  [[nodiscard]] int stride() const {
    return (step_ + 1 < steps() ? distances_[step_ + 1] : ranks_.size()) - distances_[step_];
  }

  void end_step() {
    moving_.wait_on(c_.stream);
    here_ = next();
    ++step_;
  }

 private:
  [[nodiscard]] matrix_view<T> next() const { return room_[step_ % 2]; }

  context<Stream>& c_;
  group<Comm> const& ranks_;
  std::vector<int> distances_;
  matrix_view<T const> here_;
  std::array<matrix_view<T>, 2> room_;
  typename group<Comm>::exchange_type moving_;
  std::size_t step_ = 0;
};

}  // namespace detail

/// Attends from all queries here to all keys of the sequences.
template <class Core, class Stream, class Comm>
requires ring_core<Core, Stream>
void ring_forward(context<Stream>& c, group<Comm> const& ranks, Core& core) {
  arena::scope const temporaries(c.memory);
  using T = typename Core::element;
  detail::keys_coming_by<T, Stream, Comm> coming(c, ranks, core.keys(c), core.window());
  for (std::size_t step = 0; step < coming.steps(); ++step) {
    auto const rows = coming.begin_step();
    detail::for_each_pair(c, ranks, core, coming.source(),
                          [&](run const& q, run const& k) { core.forward(c, q, k, rows); });
    coming.end_step();
  }
}

/// The gradients of the queries here, in the core, and of the keys here, which d_keys [rows here,
/// W] becomes.
template <class Core, class Stream, class Comm>
requires ring_core<Core, Stream>
void ring_backward(context<Stream>& c, group<Comm> const& ranks, Core& core,
                   matrix_view<accumulate_t<typename Core::element>> d_keys) {
  using T = typename Core::element;
  using A = accumulate_t<T>;
  arena::scope const temporaries(c.memory);
  detail::keys_coming_by<T, Stream, Comm> coming(c, ranks, core.keys(c), core.window());
  bool const alone = coming.steps() == 1;
  // this step's addend, and the sum so far of the step before, which is being sent
  std::array<matrix_view<A>, 2> sums{d_keys, d_keys};
  if (!alone)
    for (auto& sum : sums) sum = c.template allocate<A, 2>(d_keys.extents());
  typename group<Comm>::exchange_type returning;  // into d_keys
  for (std::size_t step = 0; step < coming.steps(); ++step) {
    auto const rows = coming.begin_step();
    auto const sum = sums[step % 2];
    ops::fill(c.stream, sum.span(), A(0));
    detail::for_each_pair(c, ranks, core, coming.source(),
                          [&](run const& q, run const& k) { core.backward(c, q, k, rows, sum); });
    if (step > 0) {
      returning.wait_on(c.stream);
      ops::add(c.stream, sum.span(), d_keys.span());
    }
    if (!alone) returning = ranks.shift(c.stream, d_keys.span(), sum.span(), coming.stride());
    coming.end_step();
  }
  returning.wait_on(c.stream);
}

}  // namespace parallel::context_parallel
