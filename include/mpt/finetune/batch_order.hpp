// Which examples each batch of a run trains on, and which of them share a row. The order is a
// function of the examples' lengths, the seed and the batch's number, and the same on every rank.
//
// Without packing an epoch is its examples in order, or shuffled anew, cut into batches of
// `rows`; an incomplete last batch is left out, or short. With packing a batch takes
// floor(rows * packing_ratio) examples and packs them into `rows` rows (bin_packing.hpp); bins that
// are left over open the next batch, also across the end of an epoch. An epoch therefore has
// floor(examples / floor(rows * packing_ratio)) steps, by which schedules of the learning rate
// count, as in LLM Foundry with one device and one worker. (In LLM Foundry every device and worker
// packs by itself, so that rows depend on the number of devices and workers; here they do not.)
//
// No packing state is saved: a run that resumes at batch b packs again from the run's start. The
// replay reads lengths only and costs some 2 ns an example and open bin: below a second for a
// million examples, and 20 s where a ratio that is too large has left 20,000 bins open.
//
// The permutation that PyTorch's randperm draws on a CPU from a seed, number for number.
//
// LLM Foundry shuffles finetuning data by this permutation (DistributedSampler: a generator seeded
// with seed + epoch), so a global batch here holds the same rows as in LLM Foundry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>

namespace mpt::finetune {

/// 0 .. size - 1 in random order. Error: size not below 2^32 / 20, from where PyTorch uses another
/// algorithm. Only the low 32 bits of the seed count, as in PyTorch. Cost: O(size).
[[nodiscard]] std::vector<std::size_t> torch_permutation(std::size_t size, std::uint64_t seed);

struct batch_order_options {
  std::size_t rows = 1;                        ///< rows of a global batch
  std::size_t row_tokens = 2048;               ///< max_seq_len
  double packing_ratio = 1;                    ///< examples a row; 1: no packing
  std::optional<std::size_t> leftover_bins{};  ///< most bins that the next batch takes over; empty:
                                               ///< no limit
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool drop_last = true;          ///< leave out an epoch's last batch when it has too few examples
  std::size_t epoch_batches = 0;  ///< most batches of an epoch; 0: as many as the examples fill
};

class batch_order {
 public:
  /// Orders examples whose lengths in ids are `tokens`. Throws when the examples do not fill a
  /// batch that must be full.
  batch_order(std::vector<std::uint32_t> tokens, batch_order_options const& options);

  [[nodiscard]] bool packs() const { return options_.packing_ratio > 1; }
  /// The number of examples that each batch draws.
  [[nodiscard]] std::size_t examples_per_batch() const { return examples_per_batch_; }
  [[nodiscard]] std::size_t batches_per_epoch() const { return batches_per_epoch_; }

  /// The rows of the run's batch number `batch`, each a bin of examples.
  [[nodiscard]] std::vector<bin> batch_rows(std::size_t batch);

  /// The packer, which tells the share of tokens still left over and of row positions in use.
  [[nodiscard]] bin_packer const& packer() const { return packer_; }

 private:
  /// The examples that batch number `batch` draws.
  [[nodiscard]] std::span<std::size_t const> examples_of(std::size_t batch);

  std::vector<std::uint32_t> tokens_;
  batch_order_options options_;
  bin_packer packer_;
  std::size_t examples_per_batch_ = 1;
  std::size_t batches_per_epoch_ = 1;
  std::size_t packed_batches_ = 0;  // batches that packer_ has packed
  std::size_t order_epoch_ = 0;     // the epoch whose order is in order_
  std::vector<std::size_t> order_;
};

}  // namespace mpt::finetune
