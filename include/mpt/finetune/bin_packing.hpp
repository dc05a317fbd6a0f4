// Short examples side by side in rows of one length, so that little of a batch is padding.
//
// The rule is LLM Foundry's (llmfoundry/data/packing.py), choice by choice, so that rows are equal:
// of every batch's examples the longest comes first and goes into the first bin with room for it,
// which then moves to the end of the bins; when just as many examples are left as bins are still
// needed, each gets a bin of its own. The fullest bins are the batch's rows; the others are left
// over and open the next batch. Nothing but lengths is needed, so where a run stands is found again
// by packing from its start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
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
             std::optional<std::size_t> leftover_bins = std::nullopt)
      : rows_(rows), row_tokens_(row_tokens), leftover_bins_(leftover_bins) {
    parallel::require(rows > 0 && row_tokens > 0, "packing needs rows and a length of them, found ",
                      rows, " rows of ", row_tokens, " tokens");
  }

  /// The rows of the batch of `examples`, numbers whose lengths `tokens` has; fullest first. Fewer
  /// than asked for when there are fewer examples than rows to begin. Cost: examples x bins.
  [[nodiscard]] std::vector<bin> pack(std::span<std::size_t const> examples,
                                      std::span<std::uint32_t const> tokens) {
    std::vector<std::size_t> longest_first(examples.begin(), examples.end());
    std::ranges::stable_sort(longest_first, std::ranges::greater(),
                             [&](std::size_t at) { return tokens[at]; });
    auto bins = std::exchange(leftover_, {});
    for (std::size_t i = 0; i < longest_first.size(); ++i) {
      auto const at = longest_first[i];
      std::size_t const size = tokens[at];
      parallel::require(size <= row_tokens_, "an example of ", size,
                        " tokens does not fit into a row of ", row_tokens_);
      given_ += size;
      auto const fits = [&](bin const& one) { return one.tokens + size <= row_tokens_; };
      bool const needs_bin = longest_first.size() - i + bins.size() <= rows_;
      auto const found = needs_bin ? bins.end() : std::ranges::find_if(bins, fits);
      if (found == bins.end()) {
        bins.push_back({size, {at}});
      } else {
        found->tokens += size;
        found->examples.push_back(at);
        std::rotate(found, found + 1, bins.end());
      }
    }
    std::ranges::stable_sort(bins, std::ranges::greater(), &bin::tokens);
    auto const taken = static_cast<std::ptrdiff_t>(std::min(rows_, bins.size()));
    leftover_.assign(std::make_move_iterator(bins.begin() + taken),
                     std::make_move_iterator(bins.end()));
    bins.resize(static_cast<std::size_t>(taken));
    if (leftover_bins_ && leftover_.size() > *leftover_bins_) leftover_.resize(*leftover_bins_);
    for (auto const& one : bins) packed_ += one.tokens;
    batches_ += 1;
    return bins;
  }

  /// The next `rows` bins of what is left over, without new examples: for the end of an evaluation.
  [[nodiscard]] std::vector<bin> flush() { return pack({}, {}); }

  [[nodiscard]] std::vector<bin> const& leftover() const { return leftover_; }

  /// The share of examples' tokens that no row has got so far (0 to 1); nothing before a batch.
  [[nodiscard]] std::optional<double> waste() const {
    if (given_ == 0) return std::nullopt;
    return 1 - static_cast<double>(packed_) / static_cast<double>(given_);
  }

  /// The share of rows' places that hold tokens (0 to 1); nothing before a batch.
  [[nodiscard]] std::optional<double> efficiency() const {
    if (batches_ == 0) return std::nullopt;
    return static_cast<double>(packed_) / static_cast<double>(row_tokens_ * rows_ * batches_);
  }

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
