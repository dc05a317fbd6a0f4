// Packs short examples side by side into rows of one length, so that little of a batch is padding.
//
// The rule is LLM Foundry's (llmfoundry/data/packing.py), choice by choice, so that rows are equal.
// The examples of a batch are packed longest first. Each goes into the first bin with room for it,
// and that bin then moves to the end of the list; when exactly as many examples are left as bins
// are still needed, each example gets its own bin. The fullest bins are the batch's rows; the
// other bins are left over and open the next batch. Packing reads lengths only, so a resumed run
// restores its state by packing again from its start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mpt::finetune {

/// The numbers of the examples that share a row, in their order in the row.
struct bin {
  std::size_t tokens = 0;
  std::vector<std::size_t> examples;

  friend bool operator==(bin const&, bin const&) = default;
};

/// Packs one batch after another, and carries bins that are left over from one to the next.
class bin_packer {
 public:
  /// Packs into `rows` bins of `row_tokens`. At most `leftover_bins` bins are left for the next
  /// batch (no value: all of them); the examples of further bins are dropped.
  bin_packer(std::size_t rows, std::size_t row_tokens,
             std::optional<std::size_t> leftover_bins = std::nullopt);

  /// The rows of the batch of `examples`, fullest first; tokens[e] is the length of example e. The
  /// result has fewer rows than requested when there are fewer examples than rows to begin. Cost:
  /// examples x bins.
  [[nodiscard]] std::vector<bin> pack(std::span<std::size_t const> examples,
                                      std::span<std::uint32_t const> tokens);

  /// The next `rows` bins of those left over, without new examples: for the end of an evaluation.
  [[nodiscard]] std::vector<bin> flush() { return pack({}, {}); }

  [[nodiscard]] std::vector<bin> const& leftover() const { return leftover_; }

  /// The share of the examples' tokens that are in no row yet (0 to 1); empty before the first
  /// batch.
  [[nodiscard]] std::optional<double> waste() const;

  /// The share of the rows' positions that hold tokens (0 to 1); empty before the first batch.
  [[nodiscard]] std::optional<double> efficiency() const;

 private:
  std::size_t rows_;
  std::size_t row_tokens_;
  std::optional<std::size_t> leftover_bins_;
  std::vector<bin> leftover_;
  std::uint64_t received_tokens_ = 0;   // of all examples so far
  std::uint64_t row_tokens_total_ = 0;  // of them, those that are in rows
  std::uint64_t batches_ = 0;
};

/// How long the rows of a batch are, by the rule of LLM Foundry's collator for the global batch as
/// a whole. Padding has no label and no token attends to it, so trimming saves computation and
/// leaves the loss unchanged.
enum class row_trimming : std::uint8_t {
  none,         ///< max_seq_len
  to_multiple,  ///< the longest row, rounded up to a multiple of 8; max_seq_len in a run's first
                ///< batch (allow_pad_trimming)
  to_longest,   ///< the longest row (pad_to_longest)
};

/// The length of the rows of a run's batch number `batch`, which holds `bins`: max_seq_len, or a
/// smaller multiple of `granule`.
[[nodiscard]] std::size_t row_length(std::span<bin const> bins, std::size_t max_seq_len,
                                     row_trimming trimming, std::size_t batch,
                                     std::size_t granule = 1);

}  // namespace mpt::finetune
