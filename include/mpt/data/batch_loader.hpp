// Batches of ids for one rank, prefetched by a background thread.
//
// Global batch number b of a run is a pure function of (sets, seed, batch size, b): G consecutive
// positions of the epoch's order, of which a rank takes rows [first, last). So the samples of a
// batch do not depend on the number of ranks, and a checkpoint needs only the seed and the start of
// the next batch, {epoch, sample_in_epoch}. Training drops the incomplete last batch of an epoch
// and never ends; evaluation reads every sample once, in order, and keeps the incomplete last
// batch. The thread enters the next epoch while the last batches of an epoch are still in use, so
// there is no pause between epochs. Memory: (prefetch + 1) * B * S ids, and the cache of shards.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <mpt/data/token_streams.hpp>

namespace mpt::data {

/// Whether batches are for training or for an evaluation.
enum class loader_mode { train, evaluate };

/// The start of a batch; together with the seed, the whole state of a loader.
struct loader_position {
  std::uint64_t epoch = 0;
  std::uint64_t sample_in_epoch = 0;
  friend bool operator==(loader_position const&, loader_position const&) = default;
};

struct batch_loader_options {
  loader_mode mode = loader_mode::train;
  std::uint64_t global_batch_size = 1;  ///< G, rows of a global batch
  std::uint64_t first_row = 0;          ///< this rank reads rows [first_row, last_row)
  std::uint64_t last_row = 1;
  sample_order_options order{};  ///< ignored in evaluation, which reads in order
  loader_position start{};
  std::uint64_t epoch_batches = 0;  ///< training: length of an epoch in batches; 0: the whole set
  std::size_t prefetch = 2;         ///< batches read ahead, at least 1
  std::uint64_t max_cache_bytes = std::uint64_t{1} << 32;  ///< for the shards of a shuffle block
  /// For remote sets: the samples of this rank whose shards are downloaded ahead, at most an
  /// epoch's; 0: of eight batches.
  std::uint64_t predownload = 0;
};

/// One rank's share of one global batch.
struct token_batch {
  loader_position position;       ///< of the global batch
  std::uint64_t global_rows = 0;  ///< G; in evaluation the last batch may have fewer
  std::uint64_t rows = 0;         ///< B, of this rank; may be 0 at the end of an evaluation
  std::uint64_t sequence_length = 0;
  std::vector<std::int32_t> ids;  ///< [B, S]

  /// ids as [B, S].
  [[nodiscard]] parallel::matrix_view<std::int32_t const> view() const;
};

/// The shards in a cache of remote sets that batches around the next one are read from.
struct shard_forecast {
  std::deque<std::vector<shard_location>> batches{};
  std::size_t read_batches = 0;  ///< of those batches, that have been read
  std::optional<loader_position> end{};
  std::optional<mixture_order> order{};  ///< of the epoch of `end`
  std::uint64_t epoch = 0;               ///< of `order`
};

/// The batches that ranks of a run, which go in step, may read at the same time.
[[nodiscard]] constexpr std::uint64_t batches_in_flight(std::size_t prefetch) {
  return prefetch + 2;
}

class batch_loader {
 public:
  /// Starts reading at `options.start`. Throws when a batch does not fit in the set.
  batch_loader(token_streams streams, batch_loader_options const& options);

  batch_loader(batch_loader&&) = delete;
  ~batch_loader() = default;  ///< ends a wait for a remote shard within about a second

  /// The next batch; nullopt after the last batch of an evaluation. An error of the reading thread
  /// is rethrown in place of the batch that it could not read. A wait for a remote shard has no end
  /// before the shard has come, or is given up.
  [[nodiscard]] std::optional<token_batch> next();

  /// The start of the batch that next() will return. To resume, save it and pass it as `start`.
  [[nodiscard]] loader_position position() const { return next_; }

  /// The total time that `next` has waited for the reading thread.
  [[nodiscard]] std::chrono::steady_clock::duration wait_time() const { return wait_time_; }

  /// The number of batches of an epoch: in training only complete batches, in evaluation all.
  [[nodiscard]] std::uint64_t batches_per_epoch() const;

 private:
  /// In training, moves a position at an incomplete last batch to the start of the next epoch.
  void skip_incomplete_batch(loader_position& position) const;

  [[nodiscard]] loader_position advanced(loader_position position, std::uint64_t rows) const;

  [[nodiscard]] token_batch load(loader_position position, std::stop_token const& stop);

  /// Tells the cache of remote sets which shards the batches from `position` on are read from.
  void expect_shards(loader_position position);

  void read_ahead(std::stop_token const& stop);

  token_streams streams_;
  batch_loader_options options_;
  std::uint64_t size_ = 0;   // samples of an epoch
  loader_position next_;     // of the caller
  loader_position reading_;  // of the thread
  std::optional<mixture_order> order_;
  shard_forecast forecast_;
  std::chrono::steady_clock::duration wait_time_{};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<token_batch> ready_;
  bool has_ended_ = false;
  std::exception_ptr failure_;
  std::jthread reader_;  // last member: it stops before the members that it uses are destroyed
};

}  // namespace mpt::data
