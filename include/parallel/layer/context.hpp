// context: what a layer meets besides its parameters and its input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <parallel/core/packed_documents.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/core/placed.hpp>
#include <parallel/device/arena.hpp>

namespace parallel {

/// Whether a pass will be followed by a backward pass (dropout is on, activations are kept).
enum class pass : std::uint8_t { training, inference };

/// The place of a microbatch in the run. Random numbers are counted by global sequence and step, so
/// they do not depend on which rank or microbatch a sequence falls to.
struct position {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_sequence = 0;  // index of the microbatch's first sequence in its global batch
  std::optional<std::uint32_t> updates = {};  // finished, where some steps updated nothing
};

/// Which rows of the microbatch an activation between regions has here; the schedule says it, and
/// no layer changes it. Along the context axis a rank holds, of every sequence, one or two runs of
/// positions; along the tensor axis an equal share of those rows one after another. Nothing set:
/// all rows. In a region of the tensor axis an activation has all rows that the context axis leaves
/// (context::of_rows_in).
struct row_share {
  index whole = 0;                   // rows of a whole sequence; 0: a sequence is not divided
  std::array<index, 2> starts = {};  // positions at which the runs begin, each of equal length
  int runs = 1;
  index first_row = 0;  // of the rows that the context axis leaves, the first that is here

  friend bool operator==(row_share const&, row_share const&) = default;
};

template <class Stream>
struct context {
  Stream& stream;
  arena& memory;  // results of a layer are allocated here; the schedule releases them
  pass mode = pass::training;
  position where = {};
  index sequence = 1;    // rows of one sequence on this rank's place of the context axis
  row_share share = {};  // where those stand in the whole sequence
  // [rows of whole sequences], divided or not: the position at which a token's document begins;
  // empty: each sequence is one document. Lives as long as the microbatch.
  packed_documents document_begins = {};
  // Nothing has been added to the gradients yet: parameters with `replaces_gradient` are not zeroed
  // but must be replaced. It spares reading and clearing them.
  bool overwrite_gradients = false;
  // Where results go that are of no use after the pass; null: to `memory`, where they stay.
  arena* scratch = nullptr;

  /// This place, with results in another arena.
  [[nodiscard]] context on(arena& other) const {
    return {stream, other, mode, where, sequence, share, document_begins, overwrite_gradients,
            scratch};
  }

  /// This place on another stream.
  [[nodiscard]] context on(Stream& other) const {
    return {other,  memory, mode, where, sequence, share, document_begins, overwrite_gradients,
            scratch};
  }

  /// This place as a layer meets it that is given `x`: of column slices all rows are here.
  template <class V>
  [[nodiscard]] context of_rows_in(V const&) const {
    return sliced_value<V> ? of_all_rows() : *this;
  }
  /// This place in a region of the tensor axis.
  [[nodiscard]] context of_all_rows() const {
    context out = *this;
    out.share.first_row = 0;
    return out;
  }

  /// Calls f(row, count, global row) for every range of the `rows` rows here that lie one after
  /// another in the global batch: one range unless sequences are divided.
  template <class F>
  void for_each_span(index rows, F&& f) const {
    auto const length = static_cast<std::uint64_t>(whole_sequence());
    if (share.whole == 0)
      f(index{0}, rows,
        where.first_sequence * length + static_cast<std::uint64_t>(share.first_row));
    else
      for_each_run(rows, [&](index row, index count, std::uint64_t which, index position) {
        f(row, count, which * length + static_cast<std::uint64_t>(position));
      });
  }

  /// Uninitialised elements that live until the schedule releases the arena.
  template <class T, std::size_t N>
  [[nodiscard]] tensor_view<T, N> allocate(shape<N> extents) {
    return memory.allocate<T, N>(extents);
  }

  /// Rows of a whole sequence.
  [[nodiscard]] index whole_sequence() const { return share.whole == 0 ? sequence : share.whole; }

  /// Calls f(row, count, sequence, position) for every run among the `rows` rows here: `count` rows
  /// from `row` on are those at `position`, `position` + 1, ... of a sequence, which is counted in
  /// the global batch.
  template <class F>
  void for_each_run(index rows, F&& f) const {
    index const length = sequence / share.runs;
    for (index row = share.first_row, end = row + rows; row < end;) {
      index const into = row % length;
      index const count = std::min(length - into, end - row);
      auto const run = static_cast<std::size_t>(row % sequence / length);
      f(row - share.first_row, count,
        where.first_sequence + static_cast<std::uint64_t>(row / sequence),
        share.starts[run] + into);
      row += count;
    }
  }

  /// Random numbers of one operation ("transformer.blocks.3.resid_dropout/0") in this step.
  [[nodiscard]] philox random(std::uint32_t operation) const {
    return {where.seed, operation, where.step};
  }
};

}  // namespace parallel
