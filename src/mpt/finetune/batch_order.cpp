#include <mpt/finetune/batch_order.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

batch_order::batch_order(std::vector<std::uint32_t> tokens, batch_order_options const& options)
    : tokens_(std::move(tokens)),
      options_(options),
      packer_(options.rows, options.row_tokens, options.leftover_bins) {
  parallel::require(options_.packing_ratio >= 1, "packing_ratio is ", options_.packing_ratio,
                    "; expected at least 1 (one example a row), or auto");
  examples_per_batch_ =
      static_cast<std::size_t>(static_cast<double>(options_.rows) * options_.packing_ratio);
  auto const example_count = tokens_.size();
  batches_per_epoch_ = options_.drop_last
                           ? example_count / examples_per_batch_
                           : (example_count + examples_per_batch_ - 1) / examples_per_batch_;
  parallel::require(batches_per_epoch_ > 0, "an epoch has ", example_count,
                    " examples, fewer than one batch of ", examples_per_batch_, " (", options_.rows,
                    " rows",
                    packs() ? parallel::concat(" times a packing ratio of ", options_.packing_ratio)
                            : std::string(),
                    "); give more data or lower the batch size");
  if (options_.epoch_batches > 0)
    batches_per_epoch_ = std::min(batches_per_epoch_, options_.epoch_batches);
}

std::vector<bin> batch_order::batch_rows(std::size_t batch) {
  if (!packs()) {
    std::vector<bin> rows;
    for (auto const example : examples_of(batch)) rows.push_back({tokens_[example], {example}});
    return rows;
  }
  if (batch < packed_batches_) {
    packer_ = bin_packer(options_.rows, options_.row_tokens, options_.leftover_bins);
    packed_batches_ = 0;
  }
  for (; packed_batches_ < batch; ++packed_batches_)
    (void)packer_.pack(examples_of(packed_batches_), tokens_);
  ++packed_batches_;
  return packer_.pack(examples_of(batch), tokens_);
}

std::span<std::size_t const> batch_order::examples_of(std::size_t batch) {
  auto const epoch = batch / batches_per_epoch_;
  if (order_.empty() || (options_.shuffle && epoch != order_epoch_)) {
    if (options_.shuffle) {
      order_ = torch_permutation(tokens_.size(), options_.seed + epoch);
    } else {
      order_.resize(tokens_.size());
      std::iota(order_.begin(), order_.end(), std::size_t{0});
    }
    order_epoch_ = epoch;
  }
  auto const first = batch % batches_per_epoch_ * examples_per_batch_;
  return std::span(order_).subspan(first, std::min(examples_per_batch_, order_.size() - first));
}

std::vector<std::size_t> torch_permutation(std::size_t size, std::uint64_t seed) {
  constexpr std::size_t size_limit = UINT32_MAX / 20;
  parallel::require(size < size_limit, "an epoch of ", size, " examples; at most ", size_limit - 1,
                    " can be shuffled");
  std::vector<std::size_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), std::size_t{0});
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < size; ++i)
    std::swap(permutation[i], permutation[i + generator() % (size - i)]);
  return permutation;
}

}  // namespace mpt::finetune
