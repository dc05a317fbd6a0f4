// What attention's options mean for one pair of a query and a key, as kernels need it.
//
// Positions count from key 0 of those that are given, as in ops::detail::positioned_attention,
// whose rules these are. Slopes and beginnings of documents are memory of the device.
#pragma once

#include <cmath>
#include <cstdint>

#include <parallel/core/philox.hpp>
#include <parallel/ops/attention.hpp>

namespace parallel::cuda::kernels {

/// Positions of a sequence. Fewer than 2^31, so that kernels count them in one register.
using position = std::int32_t;

template <class A>
struct attention_terms {
  A scale;
  A softcap;                   // 0: none
  float const* slopes;         // null: no ALiBi
  std::int32_t const* begins;  // null: one document a sequence
  index begins_stride;         // from one sequence to the next
  position begins_first;       // of query 0
  position window;             // negative: all
  position queries, keys;
  position first_query, first_key, whole;
  float dropout;
  philox random;
  std::uint64_t first_sequence, first_head, heads;  // of dropout

  /// The position of query i.
  [[nodiscard]] PARALLELLM_DEVICE position at(position i) const {
    return first_query - first_key + i;
  }

  /// The keys that query i of sequence b sees: [first(b, i), end(i)), neither of which ever falls
  /// as i grows.
  [[nodiscard]] PARALLELLM_DEVICE position first(index b, position i) const {
    position const here = first_query + i;
    position from = window < 0 || here < window ? 0 : here - window;
    if (begins != nullptr) {
      position const document = begins[b * begins_stride + begins_first + i];
      if (document > from) from = document;
    }
    if (from > here) from = here;
    return from > first_key ? from - first_key : 0;
  }
  [[nodiscard]] PARALLELLM_DEVICE position end(position i) const {
    position const next = at(i) + 1;
    return next < 0 ? 0 : next > keys ? keys : next;
  }

  /// The first query that sees key j or later ones.
  [[nodiscard]] PARALLELLM_DEVICE position first_query_of(position j) const {
    position const i = j - at(0);
    return i < 0 ? 0 : i > queries ? queries : i;
  }
  /// One beyond the last query of sequence b that sees keys before j.
  [[nodiscard]] PARALLELLM_DEVICE position end_query_of(index b, position j) const {
    position below = 0;
    position beyond = queries;
    while (below < beyond) {
      position const middle = below + (beyond - below) / 2;
      if (first(b, middle) < j)
        below = middle + 1;
      else
        beyond = middle;
    }
    return below;
  }

  /// A score and its derivative by the product q·k.
  struct bent {
    A score;
    A slope;
  };
  /// Of a pair whose key stands `apart` positions before its query.
  [[nodiscard]] PARALLELLM_DEVICE bent bend(A product, A alibi, position apart) const {
    A score = product * scale;
    A derivative = scale;
    if (softcap > A(0)) {
      A const t = std::tanh(score / softcap);
      score = softcap * t;
      derivative *= A(1) - t * t;
    }
    return {score - alibi * static_cast<A>(apart), derivative};
  }

  [[nodiscard]] PARALLELLM_DEVICE A alibi(index h) const {
    return slopes == nullptr ? A(0) : static_cast<A>(slopes[h]);
  }

  /// The number of the pair (position 0, key 0) of a sequence and head among dropout's random
  /// numbers.
  [[nodiscard]] PARALLELLM_DEVICE std::uint64_t first_pair(index b, index h) const {
    auto const all = static_cast<std::uint64_t>(whole);
    std::uint64_t const sequence = first_sequence + static_cast<std::uint64_t>(b);
    std::uint64_t const head = first_head + static_cast<std::uint64_t>(h);
    return (sequence * heads + head) * all * all +
           static_cast<std::uint64_t>(first_key) * (all + 1);
  }
  /// What dropout multiplies the probability of query i and key j by.
  [[nodiscard]] PARALLELLM_DEVICE A factor(std::uint64_t pairs, position i, position j) const {
    if (dropout == 0.0F) return A(1);
    auto const all = static_cast<std::uint64_t>(whole);
    // at(i) may be negative; it is not for pairs that see each other
    std::uint64_t const pair =
        pairs + static_cast<std::uint64_t>(at(i)) * all + static_cast<std::uint64_t>(j);
    return random.uniform(pair) >= dropout ? A(1) / (A(1) - static_cast<A>(dropout)) : A(0);
  }
};

/// The terms of `options` for these queries and keys.
template <class A, class Q, class K>
[[nodiscard]] attention_terms<A> terms_of(ops::attention_options const& options,
                                          ops::heads_view<Q> const& q,
                                          ops::heads_view<K> const& k) {
  ops::detail::positioned_attention const placed(options, q.sequence, k.sequence);
  bool const parts = options.positions.sequence_length != 0;
  auto const& dropout = options.dropout;
  auto const narrow = [](index i) { return static_cast<position>(i); };
  return {
      .scale = static_cast<A>(options.scale),
      .softcap = static_cast<A>(options.softcap),
      .slopes = options.alibi_slopes.empty() ? nullptr : options.alibi_slopes.data(),
      .begins = options.document_begins.empty() ? nullptr : options.document_begins.data(),
      .begins_stride = parts ? placed.positions.sequence_length : q.sequence,
      .begins_first = parts ? narrow(placed.positions.first_query) : 0,
      // a window beyond every position is none
      .window = options.window >= placed.positions.sequence_length ? -1 : narrow(options.window),
      .queries = narrow(q.sequence),
      .keys = narrow(k.sequence),
      .first_query = narrow(placed.positions.first_query),
      .first_key = narrow(placed.positions.first_key),
      .whole = narrow(placed.positions.sequence_length),
      .dropout = dropout.probability,
      .random = dropout.random,
      .first_sequence = dropout.first_sequence,
      .first_head = static_cast<std::uint64_t>(dropout.first_head),
      .heads = static_cast<std::uint64_t>(dropout.heads != 0 ? dropout.heads : q.heads)};
}

}  // namespace parallel::cuda::kernels
