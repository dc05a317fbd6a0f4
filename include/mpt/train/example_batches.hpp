// Batches of examples: each rank's share of the rows of a global batch.
//
// The examples of a batch and their packing into rows are the same on any number of ranks
// (finetune/batch_order.hpp); every rank computes them, since that needs lengths alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <mpt/finetune/bin_packing.hpp>
#include <mpt/finetune/packing_ratio.hpp>
#include <mpt/finetune/rows.hpp>
#include <mpt/train/example_set.hpp>
#include <mpt/train/row_lengths.hpp>
#include <mpt/train/sequences.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

namespace detail {

/// The average number of examples in a row of `loader`, in batches of `rows` rows.
[[nodiscard]] inline double packing_ratio_of(loader_config const& loader,
                                             std::span<std::uint32_t const> lengths,
                                             std::size_t rows) {
  auto const& packing = loader.finetuning->packing;
  if (!packing) return 1;
  if (packing->ratio) return *packing->ratio;
  auto const length = static_cast<std::size_t>(loader.max_seq_len);
  return loader.shuffle
             ? finetune::auto_packing_ratio_of_shuffled(lengths, loader.shuffle_seed, rows, length)
             : finetune::auto_packing_ratio(lengths, rows, length);
}

/// The ratio that `packing_ratio: auto` of a loader stands for; nothing where the loader gives a
/// number or does not pack.
[[nodiscard]] inline std::optional<double> found_packing_ratio(loader_config const& loader,
                                                               example_set const* examples,
                                                               std::int64_t rows) {
  bool const is_auto = examples != nullptr && loader.finetuning && loader.finetuning->packing &&
                       !loader.finetuning->packing->ratio;
  if (!is_auto) return std::nullopt;
  return packing_ratio_of(loader, examples->lengths(), static_cast<std::size_t>(rows));
}

/// The rows that `bins` describe.
[[nodiscard]] inline sequences rows_of(example_set const& set, std::span<finetune::bin const> bins,
                                       index length) {
  return sequences(finetune::make_rows(
      set.examples, bins, {.length = static_cast<std::size_t>(length), .pad_id = set.pad_id}));
}

}  // namespace detail

/// A rank's share of training batches; batch numbers count from the start of the run.
class example_batches {
 public:
  /// Throws when there are too few examples for one batch.
  example_batches(train_config const& config, std::shared_ptr<example_set const> set, int rank,
                  int ranks)
      : set_(std::move(set)),
        max_length_(config.train_loader.max_seq_len),
        trimming_(config.train_loader.finetuning->trimming),
        granule_(row_granule(config)),
        share_(share_of(config, rank, ranks)),
        order_(set_->lengths(), order_options(config, *set_)) {}

  [[nodiscard]] index batches_per_epoch() const {
    return static_cast<index>(order_.batches_per_epoch());
  }
  [[nodiscard]] index samples() const { return static_cast<index>(set_->examples.size()); }
  [[nodiscard]] example_set const& examples() const { return *set_; }
  [[nodiscard]] parallel::data::share share() const { return share_; }

  /// The share of global batch `batch`. A batch before the one last read costs a replay of packing.
  [[nodiscard]] sequences at(index batch) {
    auto const bins = order_.batch_rows(static_cast<std::size_t>(batch));
    auto const size = [](auto n) { return static_cast<std::size_t>(n); };
    auto const length = static_cast<index>(
        finetune::row_length(bins, size(max_length_), trimming_, size(batch), size(granule_)));
    tokens_ = 0;
    for (auto const& bin : bins) tokens_ += static_cast<std::int64_t>(bin.tokens);
    padded_tokens_ = static_cast<std::int64_t>(bins.size()) * length;
    return detail::rows_of(*set_,
                           std::span(bins).subspan(static_cast<std::size_t>(share_.begin),
                                                   static_cast<std::size_t>(share_.size())),
                           length);
  }

  /// Tokens of the last global batch that `at` returned, without padding.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// The same with padding.
  [[nodiscard]] std::int64_t padded_tokens() const { return padded_tokens_; }
  [[nodiscard]] double waited_seconds() const { return 0; }

 private:
  [[nodiscard]] static finetune::batch_order_options order_options(train_config const& config,
                                                                   example_set const& set) {
    auto const& loader = config.train_loader;
    auto const rows = static_cast<std::size_t>(config.global_train_batch_size);
    finetune::batch_order_options out{
        .rows = rows,
        .row_tokens = static_cast<std::size_t>(loader.max_seq_len),
        .packing_ratio = detail::packing_ratio_of(loader, set.lengths(), rows),
        .shuffle = loader.shuffle,
        .seed = loader.shuffle_seed};
    if (auto const& packing = loader.finetuning->packing; packing && packing->leftover_bins)
      out.leftover_bins = static_cast<std::size_t>(*packing->leftover_bins);
    if (config.train_subset_num_batches > 0)
      out.epoch_batches = static_cast<std::size_t>(config.train_subset_num_batches);
    return out;
  }

  std::shared_ptr<example_set const> set_;
  index max_length_;  // tokens of the longest row
  finetune::row_trimming trimming_;
  index granule_;
  parallel::data::share share_;
  finetune::batch_order order_;
  std::int64_t tokens_ = 0;  // in the last batch
  std::int64_t padded_tokens_ = 0;
};

/// A line for each loader with `packing_ratio: auto`: the ratio that was found.
[[nodiscard]] inline std::vector<std::string> describe_packing(run_examples const& examples,
                                                               train_config const& config) {
  std::vector<std::string> out;
  auto const add = [&](std::string const& name, loader_config const& loader,
                       std::shared_ptr<example_set const> const& set, std::int64_t rows) {
    if (auto const ratio = detail::found_packing_ratio(loader, set.get(), rows))
      out.push_back(concat(name, ": packing_ratio auto is ", *ratio, ", ",
                           static_cast<std::int64_t>(static_cast<double>(rows) * *ratio),
                           " examples for ", rows, " rows"));
  };
  add("train_loader", config.train_loader, examples.train, config.global_train_batch_size);
  for (std::size_t i = 0; i < examples.evaluation.size(); ++i)
    add(eval_loader_name(config.eval_loaders[i]), config.eval_loaders[i], examples.evaluation[i],
        config.evaluation.device_eval_batch_size);
  return out;
}

/// The rows of an evaluation set, every example once whatever the packing, in the order in which
/// one rank reads them. Cost: as bin_packer.
[[nodiscard]] inline std::vector<finetune::bin> evaluation_rows(example_set const& set,
                                                                loader_config const& loader,
                                                                index device_batch) {
  auto const lengths = set.lengths();
  auto const rows = static_cast<std::size_t>(device_batch);
  auto const ratio = detail::packing_ratio_of(loader, lengths, rows);
  std::vector<finetune::bin> out;
  if (ratio == 1) {
    for (std::size_t i = 0; i < lengths.size(); ++i) out.push_back({lengths[i], {i}});
    return out;
  }
  finetune::bin_packer packer(rows, static_cast<std::size_t>(loader.max_seq_len));
  std::vector<std::size_t> examples(lengths.size());
  std::iota(examples.begin(), examples.end(), std::size_t{0});
  auto const drawn = static_cast<std::size_t>(static_cast<double>(rows) * ratio);
  auto const take = [&](std::vector<finetune::bin> bins) {
    out.insert(out.end(), std::make_move_iterator(bins.begin()),
               std::make_move_iterator(bins.end()));
  };
  for (std::size_t begin = 0; begin < examples.size(); begin += drawn)
    take(packer.pack(std::span(examples).subspan(begin, std::min(drawn, examples.size() - begin)),
                     lengths));
  while (!packer.leftover().empty()) take(packer.flush());
  return out;
}

/// A rank's share of an evaluation set of examples, from its first batch to its last.
class example_evaluation {
 public:
  /// The arguments are those of evaluation_batches. `set` must outlive it.
  example_evaluation(example_set const& set, loader_config const& loader, index device_batch,
                     int rank, int ranks, index max_batches)
      : set_(set),
        length_(loader.max_seq_len),
        rows_(evaluation_rows(set, loader, device_batch)),
        rank_rows_(static_cast<std::size_t>(device_batch)),
        first_row_(rank_rows_ * static_cast<std::size_t>(rank)),
        stride_(rank_rows_ * static_cast<std::size_t>(ranks)) {
    if (max_batches >= 0)
      rows_.resize(std::min(rows_.size(), static_cast<std::size_t>(max_batches) * rank_rows_));
  }

  /// The next batch, which may hold no row for this rank; nothing after the last.
  [[nodiscard]] std::optional<sequences> next() {
    if (position_ >= rows_.size()) return std::nullopt;
    auto const begin = std::min(position_ + first_row_, rows_.size());
    auto const end = std::min(begin + rank_rows_, rows_.size());
    position_ += stride_;
    return detail::rows_of(set_, std::span(rows_).subspan(begin, end - begin), length_);
  }

 private:
  example_set const& set_;
  index length_;
  std::vector<finetune::bin> rows_;
  std::size_t rank_rows_;
  std::size_t first_row_;  // first row of this rank in each batch
  std::size_t stride_;     // rows of a global batch
  std::size_t position_ = 0;
};

}  // namespace mpt
