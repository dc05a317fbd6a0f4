// The effect of attention's options on one pair of a query and a key, in the form that kernels
// need.
//
// Positions are relative to key 0 of the given keys. The rules are those of
// ops::detail::positioned_attention. Slopes and beginnings of documents are device memory.
#pragma once

#include <cmath>
#include <cstdint>

#include <parallel/core/philox.hpp>
#include <parallel/ops/attention.hpp>

namespace parallel::cuda::kernels {

/// A position in a sequence. There are fewer than 2^31, so that a register holds one.
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
  position first_query, first_key, sequence_length;
  float dropout;
  philox random;
  std::uint64_t first_sequence, first_head, heads;  // of dropout

  [[nodiscard]] PARALLELLM_DEVICE position query_position(position i) const {
    return first_query - first_key + i;
  }

  /// The keys that query i of sequence b sees are [first(b, i), end(i)); both bounds are
  /// non-decreasing in i.
  [[nodiscard]] PARALLELLM_DEVICE position first(index b, position i) const {
    position const query = first_query + i;
    position from = window < 0 || query < window ? 0 : query - window;
    if (begins != nullptr) {
      position const document = begins[b * begins_stride + begins_first + i];
      if (document > from) from = document;
    }
    if (from > query) from = query;
    return from > first_key ? from - first_key : 0;
  }
  [[nodiscard]] PARALLELLM_DEVICE position end(position i) const {
    position const next = query_position(i) + 1;
    return next < 0 ? 0 : next > keys ? keys : next;
  }

  /// The first query that sees key j or later ones.
  [[nodiscard]] PARALLELLM_DEVICE position first_query_of(position j) const {
    position const i = j - query_position(0);
    return i < 0 ? 0 : i > queries ? queries : i;
  }
  /// One past the last query of sequence b that sees keys before j.
  [[nodiscard]] PARALLELLM_DEVICE position end_query_of(index b, position j) const {
    position low = 0;
    position high = queries;
    while (low < high) {
      position const middle = low + (high - low) / 2;
      if (first(b, middle) < j)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  /// A score and its derivative by the product q·k.
  struct scored_pair {
    A score;
    A slope;
  };
  /// The score of a pair whose key is `apart` positions before its query.
  [[nodiscard]] PARALLELLM_DEVICE scored_pair score_pair(A product, A alibi, position apart) const {
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

  /// The index of the random number of dropout for the pair (position 0, key 0) of a sequence and
  /// head.
  [[nodiscard]] PARALLELLM_DEVICE std::uint64_t first_pair(index b, index h) const {
    auto const length = static_cast<std::uint64_t>(sequence_length);
    std::uint64_t const sequence = first_sequence + static_cast<std::uint64_t>(b);
    std::uint64_t const head = first_head + static_cast<std::uint64_t>(h);
    return (sequence * heads + head) * length * length +
           static_cast<std::uint64_t>(first_key) * (length + 1);
  }
  /// The factor by which dropout multiplies the probability of query i and key j.
  [[nodiscard]] PARALLELLM_DEVICE A factor(std::uint64_t pairs, position i, position j) const {
    if (dropout == 0.0F) return A(1);
    auto const length = static_cast<std::uint64_t>(sequence_length);
    // query_position(i) may be negative, but not for pairs that see each other
    std::uint64_t const pair = pairs + static_cast<std::uint64_t>(query_position(i)) * length +
                               static_cast<std::uint64_t>(j);
    return random.uniform(pair) >= dropout ? A(1) / (A(1) - static_cast<A>(dropout)) : A(0);
  }
};

/// The terms of `options` for these queries and keys.
template <class A, class Q, class K>
[[nodiscard]] attention_terms<A> terms_of(ops::attention_options const& options,
                                          ops::heads_view<Q> const& q,
                                          ops::heads_view<K> const& k) {
  ops::detail::positioned_attention const positioned(options, q.sequence, k.sequence);
  bool const is_part = options.positions.sequence_length != 0;
  auto const& dropout = options.dropout;
  auto const narrow = [](index i) { return static_cast<position>(i); };
  return {.scale = static_cast<A>(options.scale),
          .softcap = static_cast<A>(options.softcap),
          .slopes = options.alibi_slopes.empty() ? nullptr : options.alibi_slopes.data(),
          .begins = options.document_begins.empty() ? nullptr : options.document_begins.data(),
          .begins_stride = is_part ? positioned.positions.sequence_length : q.sequence,
          .begins_first = is_part ? narrow(positioned.positions.first_query) : 0,
          // a window beyond every position is none
          .window =
              options.window >= positioned.positions.sequence_length ? -1 : narrow(options.window),
          .queries = narrow(q.sequence),
          .keys = narrow(k.sequence),
          .first_query = narrow(positioned.positions.first_query),
          .first_key = narrow(positioned.positions.first_key),
          .sequence_length = narrow(positioned.positions.sequence_length),
          .dropout = dropout.probability,
          .random = dropout.random,
          .first_sequence = dropout.first_sequence,
          .first_head = static_cast<std::uint64_t>(dropout.first_head),
          .heads = static_cast<std::uint64_t>(dropout.heads != 0 ? dropout.heads : q.heads)};
}

}  // namespace parallel::cuda::kernels
