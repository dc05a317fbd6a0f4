// Options of attention and extend_attention, the positions of their queries and keys, and the
// checks of both operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/packed_documents.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/detail/check.hpp>

namespace parallel::ops {

/// Dropout of probabilities. The pair (i, j) of sequence b and head h is kept iff random.uniform(e)
/// >= probability, where e = ((first_sequence + b) * heads + first_head + h) * S * S + i * S + j
/// modulo 2^64, S is the number of positions of the whole sequence (the number of keys, or
/// `positions.sequence_length`), and i and j are positions. The mask is the same in every layout
/// and on every device.
struct attention_dropout {
  float probability = 0.0F;          ///< of zeroing, in [0, 1)
  philox random = philox(0, 0);      ///< key of this seed, operation and step
  std::uint64_t first_sequence = 0;  ///< global index of sequence 0
  index first_head = 0;              ///< global index of head 0, when heads are split over ranks
  index heads = 0;                   ///< global number of query heads; 0: those of q

  [[nodiscard]] constexpr bool is_active() const { return probability > 0.0F; }
};

/// The positions of queries and keys that are parts of a longer sequence. By default the keys begin
/// at position 0, and the queries are the last of as many positions as there are keys.
struct attention_positions {
  index sequence_length = 0;  ///< positions of the whole sequence; 0: the default
  index first_query = 0;      ///< position of query 0
  index first_key = 0;        ///< position of key 0
};

struct attention_options {
  double scale = 1.0;                        ///< of q·k, usually 1 / sqrt(head_dim)
  std::span<float const> alibi_slopes = {};  ///< one per head of q; empty: none. Not copied: it
                                             ///< must live until the operation has run
  attention_dropout dropout = {};
  double softcap = 0.0;  ///< c of c tanh(s / c); 0: scores are not capped
  index window = -1;     ///< keys before its own position that a query sees; negative: all
  /// [batch * sequence_length] if `positions` is set, else [batch * queries]: the position at which
  /// a token's document begins, at most the token's own position and not less than that of the
  /// token before; empty: each sequence is one document. Not copied: it must live until the
  /// operation has run. If the documents are counted, kernels may treat each as its own sequence.
  packed_documents document_begins = {};
  attention_positions positions = {};
};

namespace detail {

/// The options of one call, with the positions of its queries and keys filled in.
struct positioned_attention {
  positioned_attention(attention_options const& caller_options, index num_queries, index num_keys)
      : options(caller_options),
        queries(num_queries),
        keys(num_keys),
        positions(caller_options.positions) {
    if (positions.sequence_length == 0)
      positions = {.sequence_length = keys, .first_query = keys - queries, .first_key = 0};
  }

  attention_options const& options;
  index queries, keys;
  attention_positions positions;

  /// The position of query i, relative to key 0. Keys up to this index are not in its future.
  [[nodiscard]] index query_position(index i) const {
    return positions.first_query - positions.first_key + i;
  }

  /// first(i) of query i of sequence b, relative to key 0; at least 0, possibly beyond the last
  /// key.
  [[nodiscard]] index first_key(index b, index i) const {
    index const position = positions.first_query + i;
    index first = options.window < 0 ? 0 : std::max<index>(position - options.window, 0);
    if (!options.document_begins.empty())
      first = std::max<index>(first, options.document_begins[document(b, i)]);
    return std::max<index>(std::min(first, position) - positions.first_key, 0);
  }

  /// One past the last key that the queries before `end` see.
  [[nodiscard]] index end_key(index end) const {
    return std::clamp<index>(query_position(end), 0, keys);
  }

  /// The index of the random number of dropout for the pair (first_key, first_key) of sequence b
  /// and head h of `heads`. The pair (i, j), relative to it, has an index that is larger by i *
  /// sequence_length + j.
  [[nodiscard]] std::uint64_t first_pair(index b, index h, index heads) const {
    auto const& dropout = options.dropout;
    auto const all_heads = static_cast<std::uint64_t>(dropout.heads != 0 ? dropout.heads : heads);
    auto const head = static_cast<std::uint64_t>(dropout.first_head + h);
    auto const length = static_cast<std::uint64_t>(positions.sequence_length);
    auto const sequence = dropout.first_sequence + static_cast<std::uint64_t>(b);
    return (sequence * all_heads + head) * length * length +
           static_cast<std::uint64_t>(positions.first_key) * (length + 1);
  }

  /// The number of pairs (query, key) that one head sees, of one sequence that is one document.
  [[nodiscard]] index pairs() const {
    // the sum of clamp(x, 0, keys) over x in [first, first + queries)
    auto const sum_below = [&](index end) {
      if (end <= 0) return index{0};
      index const rising = std::min(end, keys);
      return rising * (rising - 1) / 2 + (end - rising) * keys;
    };
    auto const sum_from = [&](index first) {
      return sum_below(first + queries) - sum_below(first);
    };
    index const window = options.window;
    return sum_from(query_position(1)) - (window < 0 ? 0 : sum_from(query_position(0) - window));
  }

 private:
  [[nodiscard]] std::size_t document(index b, index i) const {
    bool const is_part = options.positions.sequence_length != 0;
    return static_cast<std::size_t>(
        is_part ? b * positions.sequence_length + positions.first_query + i : b * queries + i);
  }
};

template <class T, class U>
void check_heads(std::string_view operation, std::string_view name, heads_view<T> const& view,
                 heads_view<U> const& q, index sequence, index heads) {
  require_equal(operation, concat("the batch of ", name), view.batch, "that of q", q.batch);
  require_equal(operation, concat("the sequence length of ", name), view.sequence,
                "the required number", sequence);
  require_equal(operation, concat("the number of heads of ", name), view.heads,
                "the required number", heads);
  require_equal(operation, concat("the head_dim of ", name), view.head_dim, "that of q",
                q.head_dim);
  require(view.row_stride >= view.heads * view.head_dim || view.sequence <= 1, "ops::", operation,
          ": the rows of ", name, " overlap: row_stride is ", view.row_stride, ", but a row has ",
          view.heads * view.head_dim, " elements");
}

template <class Q, class K, class V>
void check_attention(std::string_view operation, heads_view<Q> const& q, heads_view<K> const& k,
                     heads_view<V> const& v, attention_options const& options) {
  check_heads(operation, "q", q, q, q.sequence, q.heads);
  check_heads(operation, "k", k, q, k.sequence, k.heads);
  check_heads(operation, "v", v, q, k.sequence, k.heads);
  require(k.heads > 0 && q.heads % k.heads == 0, "ops::", operation, ": ", q.heads,
          " query heads cannot share ", k.heads,
          " key heads; the number of key heads must divide that of query heads");
  auto const& positions = options.positions;
  require(positions.sequence_length != 0 || q.sequence <= k.sequence, "ops::", operation,
          ": there are ", q.sequence, " queries but only ", k.sequence,
          " keys; query i is at position keys - queries + i, so keys may not be fewer");
  auto const check_range = [&](std::string_view subject, index first, index count) {
    require(positions.sequence_length == 0 ||
                (first >= 0 && first + count <= positions.sequence_length),
            "ops::", operation, ": the ", subject, " are at positions ", first, " to ",
            first + count - 1, ", but the sequence has ", positions.sequence_length);
  };
  check_range("queries", positions.first_query, q.sequence);
  check_range("keys", positions.first_key, k.sequence);
  auto const slopes = static_cast<index>(options.alibi_slopes.size());
  require(slopes == 0 || slopes == q.heads, "ops::", operation, ": there are ", slopes,
          " ALiBi slopes for ", q.heads, " heads; give one per head, or none");
  auto const documents = static_cast<index>(options.document_begins.size());
  index const tokens =
      q.batch * (positions.sequence_length != 0 ? positions.sequence_length : q.sequence);
  require(documents == 0 || documents == tokens, "ops::", operation, ": there are ", documents,
          " document_begins for ", tokens,
          positions.sequence_length != 0 ? " positions; give one per position"
                                         : " queries; give one per query",
          ", or none");
  require(options.softcap >= 0.0, "ops::", operation, ": softcap is ", options.softcap,
          ", but must be above 0, or 0 for none");
  float const p = options.dropout.probability;
  require(p >= 0.0F && p < 1.0F, "ops::", operation, ": the dropout probability is ", p,
          ", but must be in [0, 1)");
}

template <class A, class Q>
void check_lse(std::string_view operation, tensor_view<A, 3> const& lse, heads_view<Q> const& q) {
  require(lse.extents() == shape<3>{q.batch, q.heads, q.sequence}, "ops::", operation, ": lse is [",
          lse.extent(0), ", ", lse.extent(1), ", ", lse.extent(2),
          "], but must be [batch, heads, queries] = [", q.batch, ", ", q.heads, ", ", q.sequence,
          "]");
}

}  // namespace detail

}  // namespace parallel::ops
