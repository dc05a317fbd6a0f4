#include <mpt/finetune/bin_packing.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

bin_packer::bin_packer(std::size_t rows, std::size_t row_tokens,
                       std::optional<std::size_t> leftover_bins)
    : rows_(rows), row_tokens_(row_tokens), leftover_bins_(leftover_bins) {
  parallel::require(rows > 0 && row_tokens > 0,
                    "packing needs at least one row of at least one token, found ", rows,
                    " rows of ", row_tokens, " tokens");
}

std::vector<bin> bin_packer::pack(std::span<std::size_t const> examples,
                                  std::span<std::uint32_t const> tokens) {
  std::vector<std::size_t> longest_first(examples.begin(), examples.end());
  std::ranges::stable_sort(longest_first, std::ranges::greater(),
                           [&](std::size_t example) { return tokens[example]; });
  auto bins = std::exchange(leftover_, {});
  for (std::size_t i = 0; i < longest_first.size(); ++i) {
    auto const example = longest_first[i];
    std::size_t const size = tokens[example];
    parallel::require(size <= row_tokens_, "an example of ", size,
                      " tokens does not fit into a row of ", row_tokens_);
    received_tokens_ += size;
    auto const fits = [&](bin const& candidate) { return candidate.tokens + size <= row_tokens_; };
    bool const needs_bin = longest_first.size() - i + bins.size() <= rows_;
    auto const found = needs_bin ? bins.end() : std::ranges::find_if(bins, fits);
    if (found == bins.end()) {
      bins.push_back({size, {example}});
    } else {
      found->tokens += size;
      found->examples.push_back(example);
      std::rotate(found, found + 1, bins.end());
    }
  }
  std::ranges::stable_sort(bins, std::ranges::greater(), &bin::tokens);
  auto const row_count = static_cast<std::ptrdiff_t>(std::min(rows_, bins.size()));
  leftover_.assign(std::make_move_iterator(bins.begin() + row_count),
                   std::make_move_iterator(bins.end()));
  bins.resize(static_cast<std::size_t>(row_count));
  if (leftover_bins_ && leftover_.size() > *leftover_bins_) leftover_.resize(*leftover_bins_);
  for (auto const& row : bins) row_tokens_total_ += row.tokens;
  batches_ += 1;
  return bins;
}

std::optional<double> bin_packer::waste() const {
  if (received_tokens_ == 0) return std::nullopt;
  return 1 - static_cast<double>(row_tokens_total_) / static_cast<double>(received_tokens_);
}

std::optional<double> bin_packer::efficiency() const {
  if (batches_ == 0) return std::nullopt;
  return static_cast<double>(row_tokens_total_) /
         static_cast<double>(row_tokens_ * rows_ * batches_);
}

std::size_t row_length(std::span<bin const> bins, std::size_t max_seq_len, row_trimming trimming,
                       std::size_t batch, std::size_t granule) {
  if (trimming == row_trimming::none) return max_seq_len;
  if (trimming == row_trimming::to_multiple && batch == 0) return max_seq_len;
  std::size_t longest = 1;
  for (auto const& row : bins) longest = std::max(longest, row.tokens);
  auto const round_up = [&](std::size_t multiple) {
    longest = (longest + multiple - 1) / multiple * multiple;
  };
  if (trimming == row_trimming::to_multiple) round_up(8);
  round_up(granule);
  return std::min(longest, max_seq_len);
}

}  // namespace mpt::finetune
