// Attention's forward pass as a kernel: a block of threads processes a block of queries of one head
// and the keys they see, tile by tile, with a running maximum and sum (see ops/attention.hpp).
//
// Products are in accumulate_t<T> by plain multiply-adds, without tensor cores: they support every
// option, shape and element type, and give the same bits in every run. Memory: the result and lse;
// keys and values are read once for each block of queries, mostly from the cache.
#pragma once

#include <cmath>
#include <limits>

#include <parallel/ops/cuda/kernels/attention/attention_terms.hpp>
#include <parallel/ops/cuda/kernels/attention/attention_tile.hpp>

namespace parallel::cuda::kernels {

/// Rows: queries of a block / 16. Width: >= head_dim. O: T, or the type of the results that
/// `extends` continues.
template <class T, class O, unsigned Width, unsigned Rows = tile_rows<accumulate_t<T>, Width>>
struct attention_forward {
  using A = accumulate_t<T>;
  static constexpr A none = -std::numeric_limits<A>::infinity();
  static constexpr unsigned columns = tile_rows<A, Width>;
  static constexpr position queries_at_once = Rows * tile_side;
  static constexpr position keys_at_once = columns * tile_side;
  static constexpr unsigned stride = tile_stride<A>(Width);
  static constexpr unsigned weights_stride = tile_stride<A>(keys_at_once);
  static constexpr std::size_t shared_bytes =
      sizeof(A) * (queries_at_once * (stride + weights_stride) + keys_at_once * stride);

  ops::heads_view<O> out;
  A* lse;  // null: not needed
  ops::heads_view<T const> q, k, v;
  attention_terms<A> terms;
  bool extends;  // out and lse hold the result over other keys

  [[nodiscard]] std::size_t blocks() const {
    index const blocks_per_head = (q.sequence + queries_at_once - 1) / queries_at_once;
    return static_cast<std::size_t>(q.batch * q.heads * blocks_per_head);
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    index const head = block.block() % (q.batch * q.heads);
    index const b = head / q.heads;
    index const h = head % q.heads;
    index const shared_head = h / (q.heads / k.heads);
    // the last queries see the most keys: their blocks go first
    unsigned const block_order = block.block() / static_cast<unsigned>(q.batch * q.heads);
    auto const parts = static_cast<position>((q.sequence - 1) / queries_at_once);
    position const first = (parts - static_cast<position>(block_order)) * queries_at_once;
    auto const thread = position_in_tile(block);

    A* const queries = block.template shared<A>();
    A* const keys_or_values = queries + queries_at_once * stride;  // keys, then values
    A* const weights = keys_or_values + keys_at_once * stride;     // [queries, keys]
    load_tile<Width>(block, queries, queries_at_once, q, b, h, first);

    row_sums<A, Width, Rows> sums;
    sums.clear();
    A greatest[Rows];
    A total[Rows];  // of this thread's keys
    position from[Rows];
    position to[Rows];
    unroll<Rows>([&](auto r) {
      position const i = first + static_cast<position>(thread.row + r * tile_side);
      greatest[r] = none;
      total[r] = A(0);
      from[r] = to[r] = 0;
      if (i >= terms.queries) return;
      from[r] = terms.first(b, i);
      to[r] = terms.end(i);
      if (!extends) return;
      greatest[r] = lse[(b * q.heads + h) * q.sequence + i];
      if (greatest[r] == none) return;
      // a result is a sum whose total is 1
      total[r] = thread.column == 0 ? A(1) : A(0);
      sums.read(r, out.row(b, i, h), q.head_dim, thread);
    });

    A const slope = terms.alibi(h);
    std::uint64_t const pairs = terms.first_pair(b, h);
    position const after_last = first + queries_at_once;
    position const end = terms.end((after_last < terms.queries ? after_last : terms.queries) - 1);
    for (position key = terms.first(b, first); key < end; key += keys_at_once) {
      block.sync();  // the queries are loaded; the previous values have been used
      load_tile<Width>(block, keys_or_values, keys_at_once, k, b, shared_head, key);
      block.sync();
      A products[Rows][columns] = {};
      multiply_rows<Width>(products, queries, keys_or_values, thread);
      unroll<Rows>([&](auto r) {
        position const i = first + static_cast<position>(thread.row + r * tile_side);
        A new_greatest = greatest[r];
        unroll<columns>([&](auto c) {
          position const j = key + static_cast<position>(thread.column + c * tile_side);
          A& score = products[r][c];
          score = from[r] <= j && j < to[r]
                      ? terms.score_pair(score, slope, terms.query_position(i) - j).score
                      : none;
          new_greatest = larger{}(new_greatest, score);
        });
        new_greatest = combine_row(block, new_greatest, larger{});
        A const base =
            new_greatest == none ? A(0) : new_greatest;  // if no key was seen: any number
        A const keep = std::exp(greatest[r] - base);
        greatest[r] = new_greatest;
        total[r] *= keep;
        sums.scale(r, keep);
        unroll<columns>([&](auto c) {
          position const j = key + static_cast<position>(thread.column + c * tile_side);
          A const weight = std::exp(products[r][c] - base);
          total[r] += weight;
          weights[(thread.row + r * tile_side) * weights_stride + thread.column + c * tile_side] =
              weight * terms.factor(pairs, i, j);
        });
      });
      block.sync();  // the weights are stored; the keys have been used
      load_tile<Width>(block, keys_or_values, keys_at_once, v, b, shared_head, key);
      block.sync();
      sums.template add_product<columns>(weights, keys_or_values, thread);
    }

    bool const packed = can_pack(out, pack_size<A>);
    unroll<Rows>([&](auto r) {
      position const i = first + static_cast<position>(thread.row + r * tile_side);
      A const row_total = combine_row(block, total[r], plus{});
      if (i >= terms.queries) return;
      A const share = row_total == A(0) ? A(0) : A(1) / row_total;
      sums.write(r, out.row(b, i, h), q.head_dim, packed, thread,
                 [&](A sum, O const*) { return sum * share; });
      if (lse != nullptr && thread.column == 0)
        lse[(b * q.heads + h) * q.sequence + i] = greatest[r] + std::log(row_total);
    });
  }
};

}  // namespace parallel::cuda::kernels
