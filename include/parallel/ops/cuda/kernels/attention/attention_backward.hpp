// Attention's backward pass as three kernels, without atomics: every sum has one owner and a fixed
// order.
//
// With P the probabilities, recomputed from lse, and D_i = dout_i·out_i (first kernel): dV = Pᵀ dO,
// dP = dO Vᵀ, dS = P (dP - D) s' with s' the derivative of the score by q·k, dQ = dS K, dK = dSᵀ Q.
// In the second kernel a block of threads has a block of queries and iterates over the keys they
// see, for dQ. In the third it has a block of keys of a key head and iterates over the queries that
// see them, of all query heads that share the key head, for dK and dV. So S and dP are computed
// twice: 7 products instead of the 5 that are needed, the price of a deterministic result.
//
// Tiles are as large as the shared memory of the device allows (attention_passes.hpp chooses Rows).
// The order of sums over keys and queries does not depend on the size of a tile, so neither do the
// bits.
#pragma once

#include <cmath>

#include <parallel/ops/cuda/kernels/attention/attention_terms.hpp>
#include <parallel/ops/cuda/kernels/attention/attention_tile.hpp>
#include <parallel/ops/cuda/kernels/attention/rows_of_heads.hpp>

namespace parallel::cuda::kernels {

/// row_dots[b, h, i] = dout_i·out_i, one warp for each row.
template <class T>
struct attention_row_dots {
  using A = accumulate_t<T>;
  A* row_dots;  // [B, H, Sq]
  ops::heads_view<T const> dout, out;

  [[nodiscard]] index rows() const { return out.batch * out.heads * out.sequence; }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    for_each_row_of_heads(block, out, [&](index b, index i, index h, unsigned lane) {
      T const* const x = dout.row(b, i, h);
      T const* const y = out.row(b, i, h);
      A sum = A(0);
      for (index d = lane; d < out.head_dim; d += warp_size)
        sum += static_cast<A>(x[d]) * static_cast<A>(y[d]);
      sum = combine_warp(block, sum, plus{});
      if (lane == 0) row_dots[(b * out.heads + h) * out.sequence + i] = sum;
    });
  }
};

/// The shared parts of the second and third kernel. Rows: queries or keys of a tile / 16. `adds`:
/// add to the gradients.
template <class T, unsigned Width, unsigned Rows>
struct attention_gradient_walk {
  using A = accumulate_t<T>;
  static constexpr unsigned rows = Rows;
  static constexpr position at_once = rows * tile_side;  // queries or keys of a tile
  static constexpr unsigned stride = tile_stride<A>(Width);
  static constexpr unsigned weights_stride = tile_stride<A>(at_once);

  ops::heads_view<T const> dout, q, k, v;
  A const* lse;
  A const* row_dots;
  attention_terms<A> terms;
  bool adds;

  /// The contribution of a pair: its probability after dropout, and the gradient of its product
  /// q·k.
  struct pair_gradient {
    A weight;
    A product;
  };
  /// The contribution of a pair that see each other; `gradient` is dout_i·v_j.
  [[nodiscard]] PARALLELLM_DEVICE pair_gradient contribution(A product, A gradient, A slope,
                                                             std::uint64_t pairs, position i,
                                                             position j, A log_sum,
                                                             A row_dot) const {
    auto const scored = terms.score_pair(product, slope, terms.query_position(i) - j);
    A const probability = std::exp(scored.score - log_sum);
    A const factor = terms.factor(pairs, i, j);
    return {probability * factor, probability * (factor * gradient - row_dot) * scored.slope};
  }

  template <class O, class Block>
  PARALLELLM_DEVICE void write(Block const& block, ops::heads_view<O> const& to, index b, index h,
                               position first, row_sums<A, Width, rows> const& sums) const {
    auto const thread = position_in_tile(block);
    bool const packed = can_pack(to, pack_size<A>);
    unroll<rows>([&](auto r) {
      position const i = first + static_cast<position>(thread.row + r * tile_side);
      if (i >= to.sequence) return;
      sums.write(r, to.row(b, i, h), to.head_dim, packed, thread, [&](A sum, O const* previous) {
        return adds ? static_cast<A>(*previous) + sum : sum;
      });
    });
  }
};

/// Computes dq. One block of threads for each block of queries of a head.
template <class T, class O, unsigned Width, unsigned Rows>
struct attention_query_gradient {
  using walk_type = attention_gradient_walk<T, Width, Rows>;
  using A = accumulate_t<T>;
  static constexpr unsigned rows = walk_type::rows;
  static constexpr position at_once = walk_type::at_once;
  static constexpr unsigned stride = walk_type::stride;
  static constexpr std::size_t shared_bytes =
      sizeof(A) * at_once * (4 * stride + walk_type::weights_stride);

  ops::heads_view<O> dq;
  walk_type walk;

  [[nodiscard]] std::size_t blocks() const {
    return static_cast<std::size_t>(dq.batch * dq.heads * ((dq.sequence + at_once - 1) / at_once));
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    auto const& terms = walk.terms;
    index const head = block.block() % (dq.batch * dq.heads);
    index const b = head / dq.heads;
    index const h = head % dq.heads;
    index const shared_head = h / (dq.heads / walk.k.heads);
    unsigned const block_order = block.block() / static_cast<unsigned>(dq.batch * dq.heads);
    auto const parts = static_cast<position>((dq.sequence - 1) / at_once);
    position const first = (parts - static_cast<position>(block_order)) * at_once;
    auto const thread = position_in_tile(block);

    A* const queries = block.template shared<A>();
    A* const gradients = queries + at_once * stride;
    A* const keys = gradients + at_once * stride;
    A* const values = keys + at_once * stride;
    A* const d_products = values + at_once * stride;  // [queries, keys]
    load_tile<Width>(block, queries, at_once, walk.q, b, h, first);
    load_tile<Width>(block, gradients, at_once, walk.dout, b, h, first);

    row_sums<A, Width, rows> sums;
    sums.clear();
    A log_sum[rows] = {};
    A row_dot[rows] = {};
    position from[rows] = {};
    position to[rows] = {};
    unroll<rows>([&](auto r) {
      position const i = first + static_cast<position>(thread.row + r * tile_side);
      if (i >= terms.queries) return;
      from[r] = terms.first(b, i);
      to[r] = terms.end(i);
      log_sum[r] = walk.lse[(b * dq.heads + h) * dq.sequence + i];
      row_dot[r] = walk.row_dots[(b * dq.heads + h) * dq.sequence + i];
    });

    A const slope = terms.alibi(h);
    std::uint64_t const pairs = terms.first_pair(b, h);
    position const after_last = first + at_once;
    position const end = terms.end((after_last < terms.queries ? after_last : terms.queries) - 1);
    for (position key = terms.first(b, first); key < end; key += at_once) {
      block.sync();  // the previous tiles have been used
      load_tile<Width>(block, keys, at_once, walk.k, b, shared_head, key);
      load_tile<Width>(block, values, at_once, walk.v, b, shared_head, key);
      block.sync();
      A products[rows][rows] = {};
      A d_weights[rows][rows] = {};
      multiply_rows<Width>(products, queries, keys, thread);
      multiply_rows<Width>(d_weights, gradients, values, thread);
      unroll<rows>([&](auto r) {
        position const i = first + static_cast<position>(thread.row + r * tile_side);
        unroll<rows>([&](auto c) {
          position const j = key + static_cast<position>(thread.column + c * tile_side);
          A d_product = A(0);
          if (from[r] <= j && j < to[r])
            d_product = walk.contribution(products[r][c], d_weights[r][c], slope, pairs, i, j,
                                          log_sum[r], row_dot[r])
                            .product;
          d_products[(thread.row + r * tile_side) * walk_type::weights_stride + thread.column +
                     c * tile_side] = d_product;
        });
      });
      block.sync();
      sums.template add_product<rows>(d_products, keys, thread);
    }
    walk.write(block, dq, b, h, first, sums);
  }
};

/// Computes dk and dv. One block of threads for each block of keys of a key head.
template <class T, class O, unsigned Width, unsigned Rows>
struct attention_key_gradient {
  using walk_type = attention_gradient_walk<T, Width, Rows>;
  using A = accumulate_t<T>;
  static constexpr unsigned rows = walk_type::rows;
  static constexpr position at_once = walk_type::at_once;
  static constexpr unsigned stride = walk_type::stride;
  static constexpr unsigned weights_stride = walk_type::weights_stride;
  static constexpr std::size_t shared_bytes =
      sizeof(A) * at_once * (4 * stride + 2 * weights_stride);

  ops::heads_view<O> dk, dv;
  walk_type walk;

  [[nodiscard]] std::size_t blocks() const {
    return static_cast<std::size_t>(dk.batch * dk.heads * ((dk.sequence + at_once - 1) / at_once));
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    auto const& terms = walk.terms;
    auto const& q = walk.q;
    index const head = block.block() % (dk.batch * dk.heads);
    index const b = head / dk.heads;
    index const key_head = head % dk.heads;
    // the first keys are seen by the most queries: their blocks go first
    unsigned const block_order = block.block() / static_cast<unsigned>(dk.batch * dk.heads);
    position const first = static_cast<position>(block_order) * at_once;
    auto const thread = position_in_tile(block);

    A* const keys = block.template shared<A>();
    A* const values = keys + at_once * stride;
    A* const queries = values + at_once * stride;
    A* const gradients = queries + at_once * stride;
    A* const weights = gradients + at_once * stride;           // [keys, queries]
    A* const d_products = weights + at_once * weights_stride;  // [keys, queries]
    load_tile<Width>(block, keys, at_once, walk.k, b, key_head, first);
    load_tile<Width>(block, values, at_once, walk.v, b, key_head, first);

    row_sums<A, Width, rows> d_keys;
    row_sums<A, Width, rows> d_values;
    d_keys.clear();
    d_values.clear();
    position const begin = terms.first_query_of(first);
    position const end = terms.end_query_of(b, first + at_once);
    index const share = q.heads / dk.heads;
    for (index h = key_head * share; h < (key_head + 1) * share; ++h) {
      A const slope = terms.alibi(h);
      std::uint64_t const pairs = terms.first_pair(b, h);
      index const row = (b * q.heads + h) * q.sequence;  // of lse and row_dots
      for (position query = begin; query < end; query += at_once) {
        block.sync();  // the previous tiles have been used
        load_tile<Width>(block, queries, at_once, q, b, h, query);
        load_tile<Width>(block, gradients, at_once, walk.dout, b, h, query);
        block.sync();
        A products[rows][rows] = {};
        A d_weights[rows][rows] = {};
        multiply_rows<Width>(products, keys, queries, thread);
        multiply_rows<Width>(d_weights, values, gradients, thread);
        unroll<rows>([&](auto c) {
          position const i = query + static_cast<position>(thread.column + c * tile_side);
          bool const exists = i < terms.queries;
          position const from = exists ? terms.first(b, i) : 0;
          position const to = exists ? terms.end(i) : 0;
          A const log_sum = exists ? walk.lse[row + i] : A(0);
          A const row_dot = exists ? walk.row_dots[row + i] : A(0);
          unroll<rows>([&](auto r) {
            position const j = first + static_cast<position>(thread.row + r * tile_side);
            typename walk_type::pair_gradient pair{A(0), A(0)};
            if (from <= j && j < to)
              pair = walk.contribution(products[r][c], d_weights[r][c], slope, pairs, i, j, log_sum,
                                       row_dot);
            unsigned const element =
                (thread.row + r * tile_side) * weights_stride + thread.column + c * tile_side;
            weights[element] = pair.weight;
            d_products[element] = pair.product;
          });
        });
        block.sync();
        d_values.template add_product<rows>(weights, gradients, thread);
        d_keys.template add_product<rows>(d_products, queries, thread);
      }
    }
    walk.write(block, dk, b, key_head, first, d_keys);
    walk.write(block, dv, b, key_head, first, d_values);
  }
};

}  // namespace parallel::cuda::kernels
