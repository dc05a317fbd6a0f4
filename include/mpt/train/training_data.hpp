// The data of a run: training batches from any position, evaluation sets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/data/batch_loader.hpp>
#include <mpt/train/sequences.hpp>

namespace mpt {

/// Opens the MDS set of a loader.
[[nodiscard]] inline std::shared_ptr<data::token_dataset const> open_dataset(
    loader_config const& loader, std::int64_t vocab_size) {
  data::token_dataset_options options{
      .sequence_length = static_cast<std::uint64_t>(loader.max_seq_len),
      .split = loader.split,
      .vocab_size = vocab_size};
  for (auto const& known : data::detail::mds_types)
    if (known.name == loader.token_encoding_type) options.raw_type = known.type;
  return std::make_shared<data::token_dataset const>(loader.local, std::move(options));
}

/// This rank's share of training batches; batch numbers count from the start of the run.
class training_batches {
 public:
  training_batches(train_config const& config, int rank, int ranks)
      : set_(open_dataset(config.train_loader, config.model.vocab_size)),
        global_(config.global_train_batch_size),
        share_(parallel::data::share_of(global_, rank, ranks)),
        seed_(config.train_loader.shuffle_seed),
        shuffle_(config.train_loader.shuffle ? data::shuffle::blocks : data::shuffle::none),
        block_size_(
            static_cast<std::uint64_t>(config.train_loader.shuffle_block_size.value_or(0))) {
    parallel::require(static_cast<index>(set_->size()) >= global_, set_->reader().folder().string(),
                      ": has ", set_->size(), " samples, fewer than one global batch of ", global_,
                      "; prepare more data or lower global_train_batch_size");
    per_epoch_ = static_cast<index>(set_->size()) / global_;
    shortened_ =
        config.train_subset_num_batches > 0 && config.train_subset_num_batches < per_epoch_;
    if (shortened_) per_epoch_ = config.train_subset_num_batches;
  }

  [[nodiscard]] index batches_per_epoch() const { return per_epoch_; }
  [[nodiscard]] index samples() const { return static_cast<index>(set_->size()); }
  [[nodiscard]] parallel::data::share share() const { return share_; }

  /// The share of global batch `batch`. Asked for in order it is read ahead; any other jumps there.
  [[nodiscard]] sequences at(index batch) {
    if (!loader_ || batch != next_ || (shortened_ && batch % per_epoch_ == 0)) open(batch);
    auto part = loader_->next();
    parallel::require(part.has_value(), "the training data ended at batch ", batch);
    next_ = batch + 1;
    return {std::move(part->ids), static_cast<index>(part->sequence_length)};
  }

 private:
  void open(index batch) {
    loader_.emplace(set_, data::batch_loader_options{
                              .mode = data::loader_mode::train,
                              .global_batch_size = static_cast<std::uint64_t>(global_),
                              .first_row = static_cast<std::uint64_t>(share_.begin),
                              .last_row = static_cast<std::uint64_t>(share_.end),
                              .order = {.mode = shuffle_, .seed = seed_, .block_size = block_size_},
                              .start = {static_cast<std::uint64_t>(batch / per_epoch_),
                                        static_cast<std::uint64_t>(batch % per_epoch_ * global_)}});
  }

  std::shared_ptr<data::token_dataset const> set_;
  index global_;
  parallel::data::share share_;
  std::uint64_t seed_;
  data::shuffle shuffle_;
  std::uint64_t block_size_;
  index per_epoch_ = 1;
  bool shortened_ = false;  // an epoch ends before the set does
  index next_ = 0;
  std::optional<data::batch_loader> loader_;
};

/// This rank's share of one evaluation set, from its first batch to its last.
class evaluation_batches {
 public:
  evaluation_batches(std::shared_ptr<data::token_dataset const> set, index device_batch, int rank,
                     int ranks, index max_batches)
      : max_batches_(max_batches),
        loader_(std::move(set),
                {.mode = data::loader_mode::evaluate,
                 .global_batch_size = static_cast<std::uint64_t>(device_batch * ranks),
                 .first_row = static_cast<std::uint64_t>(device_batch * rank),
                 .last_row = static_cast<std::uint64_t>(device_batch * (rank + 1)),
                 .order = {},
                 .start = {}}) {}

  /// The next batch, which may hold no sequence for this rank; nothing after the last.
  [[nodiscard]] std::optional<sequences> next() {
    if (max_batches_ >= 0 && taken_ == max_batches_) return std::nullopt;
    auto part = loader_.next();
    if (!part) return std::nullopt;
    ++taken_;
    return sequences(std::move(part->ids), static_cast<index>(part->sequence_length));
  }

 private:
  index max_batches_;
  index taken_ = 0;
  data::batch_loader loader_;
};

}  // namespace mpt
