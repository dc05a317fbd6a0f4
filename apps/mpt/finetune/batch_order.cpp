#include <mpt/finetune/batch_order.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <mpt/finetune/torch_permutation.hpp>

namespace mpt::finetune {

batch_order::batch_order(std::vector<std::uint32_t> tokens, batch_order_options const& options)
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
                    packs() ? parallel::concat(" times a packing ratio of ", options_.packing_ratio)
                            : std::string(),
                    "); give more data or lower the batch size");
  if (options_.epoch_batches > 0) per_epoch_ = std::min(per_epoch_, options_.epoch_batches);
}

std::vector<bin> batch_order::at(std::size_t batch) {
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

std::span<std::size_t const> batch_order::examples_of(std::size_t batch) {
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

}  // namespace mpt::finetune
