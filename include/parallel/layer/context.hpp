// context: everything that a layer needs besides its parameters and its input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <parallel/core/packed_documents.hpp>
#include <parallel/core/partial_values.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/arena.hpp>

namespace parallel {

/// Whether a backward pass follows this pass (dropout is active, activations are kept).
enum class pass : std::uint8_t { training, inference };

/// The position of a microbatch in the run. Random numbers are indexed by global sequence and step,
/// so they do not depend on the rank or the microbatch that a sequence is assigned to.
struct position {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_sequence =
      0;  ///< index of the microbatch's first sequence in its global batch
  std::optional<std::uint32_t> updates = {};  ///< finished updates, where some steps made none
};

/// The rows of the microbatch that this rank holds of an activation between tensor regions; the
/// schedule sets it, and no layer changes it. Along the context axis a rank holds one or two runs
/// of positions of every sequence; along the tensor axis it holds an equal share of those rows,
/// which are consecutive. Default: all rows. Inside a region of the tensor axis an activation has
/// all rows that the context axis assigns to this rank (context::for_rows_of).
struct row_share {
  index whole = 0;                   ///< rows of a whole sequence; 0: a sequence is not divided
  std::array<index, 2> starts = {};  ///< positions at which the runs begin, each of equal length
  int runs = 1;
  index first_row = 0;  ///< the first local row, among the rows that the context axis assigns

  friend bool operator==(row_share const&, row_share const&) = default;
};

template <class Stream>
struct context {
  Stream& stream;
  arena& memory;  ///< a layer allocates its results here; the schedule releases them
  pass mode = pass::training;
  position run_position = {};
  index sequence = 1;    ///< rows of one sequence on this rank of the context axis
  row_share share = {};  ///< the positions of those rows in the whole sequence
  /// [rows of whole sequences, even where sequences are divided]: the position at which a token's
  /// document begins; empty: each sequence is one document. Lives as long as the microbatch.
  packed_documents document_begins = {};
  /// Whether this microbatch is the first to add to the gradients; see overwrites().
  bool overwrite_gradients = false;
  /// For results that nothing reads after the pass; null: they go to `memory` and stay there.
  arena* scratch = nullptr;
  /// The labels of each whole sequence, on whichever rank; empty: each row has one.
  std::span<std::int32_t const> sequence_tokens = {};
  /// What layers report of a step (train::record_size_of), to which backward passes add; empty:
  /// they report nothing. Memory that host and device reach.
  std::span<double> record = {};

  /// Whether a layer that declares `parameter.replaces_gradient` must overwrite the parameter's
  /// gradient, which holds old values then, instead of adding to it. This saves clearing and
  /// reading it.
  template <class Parameter>
  [[nodiscard]] bool overwrites(Parameter const& parameter) const {
    return (overwrite_gradients || parameter.is_fresh_gradient) && !parameter.shares_gradient;
  }

  /// This context, with results in another arena.
  [[nodiscard]] context with_memory(arena& other) const { return with_resources(stream, other); }

  /// This context, on another stream.
  [[nodiscard]] context with_stream(Stream& other) const { return with_resources(other, memory); }

  /// This context for a layer whose input is `x`: a column slice has all rows.
  template <class V>
  [[nodiscard]] context for_rows_of(V const&) const {
    return sliced_value<V> ? for_all_rows() : *this;
  }
  /// This context inside a region of the tensor axis, where a rank holds all rows.
  [[nodiscard]] context for_all_rows() const {
    context out = *this;
    out.share.first_row = 0;
    return out;
  }

  /// Calls f(row, count, global row) for every range of the `rows` local rows that is contiguous in
  /// the global batch: for one range unless sequences are divided.
  template <class F>
  void for_each_span(index rows, F&& f) const {
    auto const length = static_cast<std::uint64_t>(whole_sequence());
    if (share.whole == 0)
      f(index{0}, rows,
        run_position.first_sequence * length + static_cast<std::uint64_t>(share.first_row));
    else
      for_each_run(rows, [&](index row, index count, std::uint64_t sequence_index, index position) {
        f(row, count, sequence_index * length + static_cast<std::uint64_t>(position));
      });
  }

  /// Uninitialised elements, valid until the schedule releases the arena.
  template <class T, std::size_t N>
  [[nodiscard]] tensor_view<T, N> allocate(shape<N> extents) {
    return memory.allocate<T, N>(extents);
  }

  /// The number of rows of a whole sequence.
  [[nodiscard]] index whole_sequence() const { return share.whole == 0 ? sequence : share.whole; }

  /// The number of labels of sequence i of the microbatch.
  [[nodiscard]] index tokens_of_sequence(index i) const {
    return sequence_tokens.empty() ? whole_sequence()
                                   : sequence_tokens[static_cast<std::size_t>(i)];
  }

  /// Calls f(row, count, sequence, position) for every run among the `rows` local rows: the `count`
  /// rows from `row` on are those at `position`, `position` + 1, ... of the sequence `sequence`, an
  /// index in the global batch.
  template <class F>
  void for_each_run(index rows, F&& f) const {
    index const length = sequence / share.runs;
    for (index row = share.first_row, end = row + rows; row < end;) {
      index const offset = row % length;
      index const count = std::min(length - offset, end - row);
      auto const run = static_cast<std::size_t>(row % sequence / length);
      f(row - share.first_row, count,
        run_position.first_sequence + static_cast<std::uint64_t>(row / sequence),
        share.starts[run] + offset);
      row += count;
    }
  }

  /// The random numbers of one operation ("transformer.blocks.3.resid_dropout/0") in this step.
  [[nodiscard]] philox random(std::uint32_t operation) const {
    if constexpr (requires { stream.note_random_numbers(operation); })
      stream.note_random_numbers(operation);
    return {run_position.seed, operation, run_position.step};
  }

 private:
  [[nodiscard]] context with_resources(Stream& other_stream, arena& other_memory) const {
    return {other_stream,    other_memory,        mode,    run_position,    sequence, share,
            document_begins, overwrite_gradients, scratch, sequence_tokens, record};
  }
};

}  // namespace parallel
