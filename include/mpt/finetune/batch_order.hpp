// Which examples each batch of a run trains on, and which of them share a row: a function of the
// examples' lengths, the seed and the batch's number, of no rank.
//
// Without packing an epoch is its examples in order, or shuffled anew, cut into batches of
// `rows`; an incomplete last one is left out, or short. With packing a batch takes
// floor(rows * packing_ratio) examples and packs them into `rows` rows (bin_packing.hpp); bins that
// are left over open the next batch, also that of the next epoch. So an epoch has
// floor(examples / floor(rows * packing_ratio)) steps, by which schedules of the learning rate
// count, as in LLM Foundry with one device and one worker. (There every device and worker packs by
// itself, so that rows depend on their numbers; here they do not.)
//
// Going on at batch b costs a replay of packing from the run's start, and saves nothing: no ids are
// touched, some 2 ns an example and open bin. That is below a second for a million examples, and
// 20 s where a ratio that is too large has left 20,000 bins open.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>
#include <mpt/finetune/torch_permutation.hpp>

namespace mpt::finetune {

struct batch_order_options {
  std::size_t rows = 1;                        ///< of a global batch
  std::size_t row_tokens = 2048;               ///< max_seq_len
  double packing_ratio = 1;                    ///< examples a row; 1: one, without packing
  std::optional<std::size_t> leftover_bins{};  ///< kept between batches; none given: all
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool drop_last = true;          ///< leave out an epoch's last batch when it has too few examples
  std::size_t epoch_batches = 0;  ///< the epoch ends after so many; 0: with the examples
};

class batch_order {
 public:
  /// For examples of `tokens` ids each. Throws when they do not fill a batch that must be full.
  batch_order(std::vector<std::uint32_t> tokens, batch_order_options const& options)
      : tokens_(std::move(tokens)),
        options_(options),
        packer_(options.rows, options.row_tokens, options.leftover_bins) {
    parallel::require(options_.packing_ratio >= 1, "packing_ratio is ", options_.packing_ratio,
                      "; expected at least 1 (one example a row), or auto");
    drawn_ = static_cast<std::size_t>(static_cast<double>(options_.rows) * options_.packing_ratio);
    auto const all = tokens_.size();
    per_epoch_ = options_.drop_last ? all / drawn_ : (all + drawn_ - 1) / drawn_;
    parallel::require(per_epoch_ > 0, "an epoch has ", all, " examples, fewer than one batch of ",
                      drawn_, " (", options_.rows, " rows",
                      packs()
                          ? parallel::concat(" times a packing ratio of ", options_.packing_ratio)
                          : std::string(),
                      "); give more data or lower the batch size");
    if (options_.epoch_batches > 0) per_epoch_ = std::min(per_epoch_, options_.epoch_batches);
  }

  [[nodiscard]] bool packs() const { return options_.packing_ratio > 1; }
  /// Examples that a batch draws.
  [[nodiscard]] std::size_t drawn() const { return drawn_; }
  [[nodiscard]] std::size_t batches_per_epoch() const { return per_epoch_; }

  /// The rows of batch `batch` of the run, each a bin of examples.
  [[nodiscard]] std::vector<bin> at(std::size_t batch) {
    if (!packs()) {
      std::vector<bin> rows;
      for (auto const at : examples_of(batch)) rows.push_back({tokens_[at], {at}});
      return rows;
    }
    if (batch < packed_) {
      packer_ = bin_packer(options_.rows, options_.row_tokens, options_.leftover_bins);
      packed_ = 0;
    }
    for (; packed_ < batch; ++packed_) (void)packer_.pack(examples_of(packed_), tokens_);
    ++packed_;
    return packer_.pack(examples_of(batch), tokens_);
  }

  /// Share of the examples' tokens that no row has got so far, and of rows' places that are used.
  [[nodiscard]] bin_packer const& packer() const { return packer_; }

 private:
  /// The examples that batch `batch` draws.
  [[nodiscard]] std::span<std::size_t const> examples_of(std::size_t batch) {
    auto const epoch = batch / per_epoch_;
    if (order_.empty() || (options_.shuffle && epoch != epoch_)) {
      if (options_.shuffle) {
        order_ = torch_permutation(tokens_.size(), options_.seed + epoch);
      } else {
        order_.resize(tokens_.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
      }
      epoch_ = epoch;
    }
    auto const first = batch % per_epoch_ * drawn_;
    return std::span(order_).subspan(first, std::min(drawn_, order_.size() - first));
  }

  std::vector<std::uint32_t> tokens_;
  batch_order_options options_;
  bin_packer packer_;
  std::size_t drawn_ = 1;
  std::size_t per_epoch_ = 1;
  std::size_t packed_ = 0;  // batches that the packer has packed
  std::size_t epoch_ = 0;   // of order_
  std::vector<std::size_t> order_;
};

}  // namespace mpt::finetune
