// The data of a run: training batches from any position, evaluation sets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <mpt/config/train.hpp>
#include <mpt/data/batch_loader.hpp>
#include <mpt/model/sequences.hpp>

namespace mpt {

/// Opens an MDS set of a loader; `remote` is read in place where `local` holds no set. `cache`: the
/// cache of the loader's remote sets, or null.
[[nodiscard]] std::shared_ptr<data::token_dataset const> open_dataset(
    loader_config const& loader, stream_config const& stream, std::int64_t vocab_size,
    std::shared_ptr<data::shard_cache> const& cache = {});

/// Opens all streams of a loader and resolves their weights. Throws for a separator that is not a
/// token.
[[nodiscard]] data::token_streams open_streams(
    loader_config const& loader, std::int64_t vocab_size,
    std::shared_ptr<data::shard_cache> const& cache = {});

/// How a loader shuffles `streams`.
[[nodiscard]] data::sample_order_options order_of(loader_config const& loader,
                                                  data::token_streams const& streams);

/// The token between the texts packed in a loader's samples.
[[nodiscard]] document_separator separator_of(loader_config const& loader);

/// This rank's share of training batches; batch numbers count from the start of the run.
class training_batches {
 public:
  training_batches(model_config const& model, data_config const& data,
                   execution_config const& execution, int rank, int ranks,
                   std::shared_ptr<data::shard_cache> const& cache = {});

  [[nodiscard]] index batches_per_epoch() const { return batches_per_epoch_; }
  [[nodiscard]] index samples() const { return static_cast<index>(streams_.size()); }
  [[nodiscard]] data::token_streams const& streams() const { return streams_; }
  [[nodiscard]] parallel::data::share share() const { return share_; }

  /// The share of global batch `batch`. Batches in order are read ahead; any other batch costs a
  /// seek.
  [[nodiscard]] sequences at(index batch);

  /// Seconds `at` has waited for data so far.
  [[nodiscard]] double waited_seconds() const;

 private:
  void open(index batch);

  data::token_streams streams_;
  data::sample_order_options order_;
  index global_batch_;
  parallel::data::share share_;
  document_separator separator_;
  std::uint64_t predownload_;  // as in batch_loader_options
  index batches_per_epoch_ = 1;
  index next_batch_ = 0;
  double waited_before_ = 0;  // by replaced loaders
  std::optional<data::batch_loader> loader_;
};

/// This rank's share of one evaluation set, from its first batch to its last.
class evaluation_batches {
 public:
  /// Reads at most `max_batches` (-1: all) batches of device_batch sequences per rank or, with
  /// `is_global_limit`, of all ranks together, so that the data does not depend on their number.
  evaluation_batches(data::token_streams streams, index device_batch, int rank, int ranks,
                     index max_batches, document_separator separator = {},
                     bool is_global_limit = false, std::uint64_t predownload = 0)
      : max_batches_(max_batches),
        separator_(separator),
        first_(is_global_limit ? rank : 0),
        stride_(is_global_limit ? ranks : 1),
        loader_(std::move(streams),
                {.mode = data::loader_mode::evaluate,
                 .global_batch_size = static_cast<std::uint64_t>(device_batch * ranks),
                 .first_row = static_cast<std::uint64_t>(device_batch * rank),
                 .last_row = static_cast<std::uint64_t>(device_batch * (rank + 1)),
                 .order = {},
                 .start = {},
                 .predownload = predownload}) {}

  /// Throws where the cache of the streams has too little room for these batches.
  static void require_room(data::token_streams const& streams, index device_batch, int ranks);

  /// The next batch, which may hold no sequence for this rank; nothing after the last.
  [[nodiscard]] std::optional<sequences> next();

 private:
  index max_batches_;
  document_separator separator_;
  index first_;   // number of this rank's first batch, where they are numbered over all ranks
  index stride_;  // from there to its next batch
  index read_batches_ = 0;
  data::batch_loader loader_;
};

}  // namespace mpt
