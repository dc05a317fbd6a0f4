// sequence_partition: the positions of every sequence that a rank of the context axis holds.
//
// A sequence is cut into 2n equal chunks, and rank r of n holds chunks r and 2n-1-r, one from the
// start and one from the end: under a causal mask a query sees the keys before it, so every rank
// does the same work in attention (as in Megatron-LM and torchtitan). Labels are those of whole
// sequences, shifted before the sequences are divided, so only attention crosses between chunks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>

namespace parallel::context_parallel {

/// Positions [position, position + count) of every sequence: rows [row, row + count) of the part of
/// it that a rank holds.
struct run {
  index row = 0;
  index position = 0;
  index count = 0;
};

/// The part that rank `rank` of `ranks` holds of sequences of `whole` positions; one rank: all.
///
///     sequence_partition(0, 2, 16)  →  positions [0, 4) and [12, 16)
///     sequence_partition(1, 2, 16)  →  positions [4, 8) and [8, 12)
class sequence_partition {
 public:
  /// Throws unless `whole` divides into twice as many chunks as ranks; the error names values that
  /// do.
  sequence_partition(int rank, int ranks, index whole) : rank_(rank), ranks_(ranks), whole_(whole) {
    require(ranks >= 1 && rank >= 0 && rank < ranks, "context: rank ", rank,
            " is not in a group of ", ranks);
    if (fits(ranks, whole)) return;
    index const chunks = 2 * index{ranks};
    index const smaller_length = whole / chunks * chunks;
    std::string choices = smaller_length > 0
                              ? concat(smaller_length, " or ", smaller_length + chunks)
                              : concat(chunks);
    int degree = ranks - 1;  // a degree of 1 always fits
    while (!fits(degree, whole)) --degree;
    fail("context: sequences of ", whole, " positions do not divide into 2 x ", ranks,
         " chunks, as a context degree of ", ranks, " needs; set their length to ", choices,
         ", or the degree to ", degree);
  }

  /// For rank `rank` of the context axis, with the sequences of `c`.
  template <class Stream>
  sequence_partition(int rank, int ranks, context<Stream> const& c)
      : sequence_partition(rank, ranks, c.whole_sequence()) {}

  [[nodiscard]] int runs() const { return ranks_ == 1 ? 1 : 2; }
  /// The number of local rows of one sequence.
  [[nodiscard]] index length() const { return whole_ / ranks_; }
  [[nodiscard]] index whole() const { return whole_; }

  [[nodiscard]] run run_at(int number) const {
    index const count = length() / runs();
    index const chunk = number == 0 ? rank_ : 2 * ranks_ - 1 - rank_;
    return {number * count, chunk * count, count};
  }

  /// For `context::share`; `context::sequence` is length().
  [[nodiscard]] row_share share() const {
    if (ranks_ == 1) return {};
    return {.whole = whole_, .starts = {run_at(0).position, run_at(1).position}, .runs = 2};
  }

  /// Throws unless the rows of a pass are those that this rank holds.
  template <class Stream>
  void check(context<Stream> const& c) const {
    auto expected = share();
    expected.first_row = c.share.first_row;
    require(c.sequence == length() && c.share == expected, "context: a pass has ", c.sequence,
            " rows of each sequence of ", whole_, ", but rank ", rank_, " of ", ranks_, " holds ",
            length(),
            "; divide the batch with context_parallel::sequence_partition, and give the pass its "
            "share");
  }

  /// This rank's rows of the rows of whole sequences: ids, labels. For rank 0 of 2 and one sequence
  /// of 8, rows 0, 1, 6 and 7.
  template <class T>
  [[nodiscard]] std::vector<T> pick(std::span<T const> rows) const {
    require(std::ssize(rows) % whole_ == 0, "context: ", rows.size(),
            " rows are no whole number of sequences of ", whole_);
    std::vector<T> out;
    out.reserve(rows.size() / static_cast<std::size_t>(ranks_));
    for (index first = 0; first < std::ssize(rows); first += whole_)
      for (int number = 0; number < runs(); ++number) {
        auto const part = rows.subspan(static_cast<std::size_t>(first + run_at(number).position),
                                       static_cast<std::size_t>(run_at(number).count));
        out.insert(out.end(), part.begin(), part.end());
      }
    return out;
  }

 private:
  [[nodiscard]] static bool fits(int ranks, index whole) {
    return ranks == 1 || (whole > 0 && whole % (2 * index{ranks}) == 0);
  }

  int rank_;
  int ranks_;
  index whole_;
};

}  // namespace parallel::context_parallel
