// The arithmetic of the exact ring model as independent items of work, which its layers enqueue on
// the host's streams, and which a GPU's threads run.
//
// No two items write the same element, so items may run in any order. They hold plain pointers and
// numbers, and nvcc compiles them, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include <parallel/core/config.hpp>

namespace test {

using ring = std::uint64_t;
using item_index = std::ptrdiff_t;

/// Enqueues item(i) for i in [0, count). Streams that cannot run tasks of the host use
/// launch_items(stream, count, item) (ring_items_cuda.hpp).
template <class Stream, class Item>
void for_each_item(Stream& s, item_index count, Item const& item) {
  auto const enqueue = [&](auto& stream) {
    stream.enqueue([count, item] {
      for (item_index i = 0; i < count; ++i) item(i);
    });
  };
  if constexpr (requires { s.run_items(count, item); })
    s.run_items(count, item);
  else if constexpr (requires { s.guard(enqueue); })
    s.guard(enqueue);
  else if constexpr (requires { s.enqueue([] {}); })
    enqueue(s);
  else
    launch_items(s, count, item);
}

namespace items {

/// By element: y = x ∘ x.
struct square {
  ring* y;
  ring const* x;
  PARALLELLM_HOST_DEVICE void operator()(item_index i) const { y[i] = x[i] * x[i]; }
};
struct square_backward {
  ring* dx;
  ring const* x;
  ring const* dy;
  PARALLELLM_HOST_DEVICE void operator()(item_index i) const { dx[i] = 2 * x[i] * dy[i]; }
};

/// By row: y = x ∘ (gain + Σ of the row).
struct norm {
  ring* y;
  ring const* x;
  ring const* gain;
  item_index columns;
  PARALLELLM_HOST_DEVICE void operator()(item_index r) const {
    ring const* const row = x + r * columns;
    ring sum = 0;
    for (item_index i = 0; i < columns; ++i) sum += row[i];
    for (item_index i = 0; i < columns; ++i) y[r * columns + i] = row[i] * (gain[i] + sum);
  }
};
struct norm_backward {
  ring* dx;
  ring const* x;
  ring const* dy;
  ring const* gain;
  item_index columns;
  PARALLELLM_HOST_DEVICE void operator()(item_index r) const {
    item_index const begin = r * columns;
    ring sum = 0;
    ring d_sum = 0;
    for (item_index i = 0; i < columns; ++i) {
      sum += x[begin + i];
      d_sum += dy[begin + i] * x[begin + i];
    }
    for (item_index i = 0; i < columns; ++i)
      dx[begin + i] = dy[begin + i] * (gain[i] + sum) + d_sum;
  }
};

/// By element: y = x times the gain that all heads share.
struct gain {
  ring* y;
  ring const* x;
  ring const* factors;
  item_index columns, dim;
  PARALLELLM_HOST_DEVICE void operator()(item_index i) const {
    y[i] = x[i] * factors[i % columns % dim];
  }
};

/// By element of a gain: += Σ dy x over all rows and all heads that share the element.
struct gain_gradient {
  ring* gradient;
  ring const* x;
  ring const* dy;
  item_index rows, columns, dim;
  PARALLELLM_HOST_DEVICE void operator()(item_index j) const {
    for (item_index r = 0; r < rows; ++r)
      for (item_index i = j; i < columns; i += dim)
        gradient[j] += dy[r * columns + i] * x[r * columns + i];
  }
};

/// One item: the loss Σ over labelled rows and columns v of (logit - [first + v = label])². Its
/// gradient overwrites the logits.
struct loss {
  ring* logits;
  std::int32_t const* labels;
  ring* sum;
  item_index rows, columns, first;
  PARALLELLM_HOST_DEVICE void operator()(item_index) const {
    for (item_index r = 0; r < rows; ++r)
      for (item_index v = 0; v < columns; ++v) {
        ring& logit = logits[r * columns + v];
        if (labels[r] < 0) {
          logit = 0;
          continue;
        }
        ring const difference = logit - (first + v == labels[r] ? 1U : 0U);
        *sum += difference * difference;
        logit = 2 * difference;
      }
  }
};

/// By element: m = 3 m + g; p = p - rate m.
struct momentum {
  ring* values;
  ring* states;
  ring const* gradients;
  ring rate;
  PARALLELLM_HOST_DEVICE void operator()(item_index i) const {
    states[i] = 3 * states[i] + gradients[i];
    values[i] -= rate * states[i];
  }
};

/// Positions [position, position + count), in rows [row, row + count) of each sequence's.
struct stretch {
  item_index row, position, count;
};

/// The data that attention's items share: which keys each query sees, and the layout of heads in
/// rows.
struct pairs {
  ring const* x;     // packed rows, queries first
  ring const* keys;  // rows of keys, which are values too
  item_index x_columns, key_columns;
  std::int32_t const*
      documents;                 // by position of a whole sequence; null: one document per sequence
  item_index full_length;        // positions of a whole sequence
  item_index length, sequences;  // rows of a sequence on this rank
  stretch q, k;
  item_index window;  // how many positions before its own a query sees; negative: all
  item_index heads, dim;
  item_index sharers;  // heads that share a key head

  [[nodiscard]] PARALLELLM_HOST_DEVICE bool sees(item_index b, item_index s, item_index t) const {
    item_index const query_position = q.position + s;
    item_index const key_position = k.position + t;
    if (key_position > query_position || (window >= 0 && key_position < query_position - window))
      return false;
    return documents == nullptr || key_position >= documents[b * full_length + query_position];
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE item_index query(item_index b, item_index s) const {
    return b * length + q.row + s;
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE item_index key(item_index b, item_index t) const {
    return b * length + k.row + t;
  }
  /// The dot product of the `dim` elements of a head in a row and in a row of keys.
  [[nodiscard]] PARALLELLM_HOST_DEVICE ring product(ring const* row, ring const* key) const {
    ring dot = 0;
    for (item_index i = 0; i < dim; ++i) dot += row[i] * key[i];
    return dot;
  }
};

/// By sequence, query and head: y_s += Σ_t (x_s · k_t) k_t.
struct attend {
  pairs attention;
  ring* y;
  item_index y_columns;
  PARALLELLM_HOST_DEVICE void operator()(item_index n) const {
    item_index const h = n % attention.heads, s = n / attention.heads % attention.q.count,
                     b = n / attention.heads / attention.q.count;
    ring const* const query =
        attention.x + attention.query(b, s) * attention.x_columns + h * attention.dim;
    ring* const out = y + attention.query(b, s) * y_columns + h * attention.dim;
    for (item_index t = 0; t < attention.k.count; ++t) {
      if (!attention.sees(b, s, t)) continue;
      ring const* const key = attention.keys + attention.key(b, t) * attention.key_columns +
                              h / attention.sharers * attention.dim;
      ring const dot = attention.product(query, key);
      for (item_index i = 0; i < attention.dim; ++i) out[i] += dot * key[i];
    }
  }
};

/// By sequence, query and head: the gradient by the query.
struct attend_backward {
  pairs attention;
  ring const* dy;
  ring* dx;
  item_index y_columns;
  PARALLELLM_HOST_DEVICE void operator()(item_index n) const {
    item_index const h = n % attention.heads, s = n / attention.heads % attention.q.count,
                     b = n / attention.heads / attention.q.count;
    ring const* const gradient = dy + attention.query(b, s) * y_columns + h * attention.dim;
    ring* const out = dx + attention.query(b, s) * attention.x_columns + h * attention.dim;
    for (item_index t = 0; t < attention.k.count; ++t) {
      if (!attention.sees(b, s, t)) continue;
      ring const* const key = attention.keys + attention.key(b, t) * attention.key_columns +
                              h / attention.sharers * attention.dim;
      ring const d_dot = attention.product(gradient, key);
      for (item_index i = 0; i < attention.dim; ++i) out[i] += d_dot * key[i];
    }
  }
};

/// By sequence, key and key head: the gradient by the key, from all queries that see it.
struct attend_backward_keys {
  pairs attention;
  ring const* dy;
  ring* d_keys;
  item_index y_columns;
  PARALLELLM_HOST_DEVICE void operator()(item_index n) const {
    item_index const heads = attention.heads / attention.sharers;
    item_index const g = n % heads, t = n / heads % attention.k.count,
                     b = n / heads / attention.k.count;
    item_index const begin = attention.key(b, t) * attention.key_columns + g * attention.dim;
    for (item_index s = 0; s < attention.q.count; ++s) {
      if (!attention.sees(b, s, t)) continue;
      for (item_index h = g * attention.sharers; h < (g + 1) * attention.sharers; ++h) {
        ring const* const query =
            attention.x + attention.query(b, s) * attention.x_columns + h * attention.dim;
        ring const* const gradient = dy + attention.query(b, s) * y_columns + h * attention.dim;
        ring const dot = attention.product(query, attention.keys + begin);
        ring const d_dot = attention.product(gradient, attention.keys + begin);
        for (item_index i = 0; i < attention.dim; ++i)
          d_keys[begin + i] += dot * gradient[i] + d_dot * query[i];
      }
    }
  }
};

/// By row: the gradients of its keys go to the last columns of dx.
struct add_keys {
  ring* dx;
  ring const* d_keys;
  item_index columns, key_columns;
  PARALLELLM_HOST_DEVICE void operator()(item_index r) const {
    for (item_index i = 0; i < key_columns; ++i)
      dx[r * columns + columns - key_columns + i] += d_keys[r * key_columns + i];
  }
};

}  // namespace items
}  // namespace test
