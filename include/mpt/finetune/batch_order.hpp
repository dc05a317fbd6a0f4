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

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>

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
  batch_order(std::vector<std::uint32_t> tokens, batch_order_options const& options);

  [[nodiscard]] bool packs() const { return options_.packing_ratio > 1; }
  /// Examples that a batch draws.
  [[nodiscard]] std::size_t drawn() const { return drawn_; }
  [[nodiscard]] std::size_t batches_per_epoch() const { return per_epoch_; }

  /// The rows of batch `batch` of the run, each a bin of examples.
  [[nodiscard]] std::vector<bin> at(std::size_t batch);

  /// Share of the examples' tokens that no row has got so far, and of rows' places that are used.
  [[nodiscard]] bin_packer const& packer() const { return packer_; }

 private:
  /// The examples that batch `batch` draws.
  [[nodiscard]] std::span<std::size_t const> examples_of(std::size_t batch);

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
