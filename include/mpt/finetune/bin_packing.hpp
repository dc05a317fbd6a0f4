// Short examples side by side in rows of one length, so that little of a batch is padding.
//
// The rule is LLM Foundry's (llmfoundry/data/packing.py), choice by choice, so that rows are equal:
// of every batch's examples the longest comes first and goes into the first bin with room for it,
// which then moves to the end of the bins; when just as many examples are left as bins are still
// needed, each gets a bin of its own. The fullest bins are the batch's rows; the others are left
// over and open the next batch. Nothing but lengths is needed, so where a run stands is found again
// by packing from its start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// Examples that share a row, by number, in the order in which they stand there.
struct bin {
  std::size_t tokens = 0;
  std::vector<std::size_t> examples;

  friend bool operator==(bin const&, bin const&) = default;
};

/// Packs one batch after the other, and keeps what is left over between them.
class bin_packer {
 public:
  /// Packs into `rows` bins of `row_tokens`; at most `leftover_bins` are kept for the next batch
  /// (none given: all), the others' examples are lost.
  bin_packer(std::size_t rows, std::size_t row_tokens,
             std::optional<std::size_t> leftover_bins = std::nullopt);

  /// The rows of the batch of `examples`, numbers whose lengths `tokens` has; fullest first. Fewer
  /// than asked for when there are fewer examples than rows to begin. Cost: examples x bins.
  [[nodiscard]] std::vector<bin> pack(std::span<std::size_t const> examples,
                                      std::span<std::uint32_t const> tokens);

  /// The next `rows` bins of what is left over, without new examples: for the end of an evaluation.
  [[nodiscard]] std::vector<bin> flush() { return pack({}, {}); }

  [[nodiscard]] std::vector<bin> const& leftover() const { return leftover_; }

  /// The share of examples' tokens that no row has got so far (0 to 1); nothing before a batch.
  [[nodiscard]] std::optional<double> waste() const;

  /// The share of rows' places that hold tokens (0 to 1); nothing before a batch.
  [[nodiscard]] std::optional<double> efficiency() const;

 private:
  std::size_t rows_;
  std::size_t row_tokens_;
  std::optional<std::size_t> leftover_bins_;
  std::vector<bin> leftover_;
  std::uint64_t given_ = 0;
  std::uint64_t packed_ = 0;
  std::uint64_t batches_ = 0;
};

}  // namespace mpt::finetune
