// Batches of ids for one rank, read ahead by a thread of its own.
//
// Global batch number b of a run is a pure function of (sets, seed, batch size, b): G consecutive
// positions of the epoch's order, of which a rank takes rows [first, last). So the samples of a
// batch do not depend on the number of ranks, and all there is to save is where the next batch
// starts: {epoch, sample_in_epoch} beside the seed. Training drops an epoch's incomplete last batch
// and never ends; evaluation reads in order, once, and keeps it. The thread crosses into the next
// epoch while the batches before it are still being trained on: nothing happens between epochs.
// Memory: (prefetch + 1) * B * S ids, and the cache of shards.
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

enum class loader_mode { train, evaluate };

/// Where a batch starts; with the seed, all of a loader's state.
struct loader_position {
  std::uint64_t epoch = 0;
  std::uint64_t sample_in_epoch = 0;
  friend bool operator==(loader_position const&, loader_position const&) = default;
};

struct batch_loader_options {
  loader_mode mode = loader_mode::train;
  std::uint64_t global_batch_size = 1;  ///< G, rows of a global batch
  std::uint64_t first_row = 0;          ///< this rank's share of them: [first_row, last_row)
  std::uint64_t last_row = 1;
  sample_order_options order{};  ///< ignored in evaluation, which is in order
  loader_position start{};
  std::uint64_t epoch_batches = 0;  ///< training: the epoch ends after so many; 0: with the set
  std::size_t prefetch = 2;         ///< batches read ahead, at least 1
  std::uint64_t max_cache_bytes = std::uint64_t{1} << 32;  ///< for the shards of a shuffle block
};

/// One rank's share of one global batch.
struct token_batch {
  loader_position position;       ///< of the global batch
  std::uint64_t global_rows = 0;  ///< G, or what was left in evaluation
  std::uint64_t rows = 0;         ///< B; may be 0 for a rank at the end of an evaluation
  std::uint64_t sequence_length = 0;
  std::vector<std::int32_t> ids;  ///< [B, S]

  /// ids as [B, S].
  [[nodiscard]] parallel::matrix_view<std::int32_t const> view() const;
};

class batch_loader {
 public:
  /// Starts reading at `options.start`. Throws when a batch does not fit in the set.
  batch_loader(token_streams streams, batch_loader_options const& options);

  batch_loader(batch_loader const&) = delete;
  batch_loader& operator=(batch_loader const&) = delete;
  ~batch_loader() = default;

  /// The next batch; nothing after the last one of an evaluation. Rethrows what went wrong in
  /// reading, at the batch where it did.
  [[nodiscard]] std::optional<token_batch> next();

  /// Where the batch after the last one taken starts: save this, give it as `start` to resume.
  [[nodiscard]] loader_position position() const { return next_; }

  /// How long `next` has waited for reading so far.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const { return waited_; }

  /// Complete batches an epoch has in training; in evaluation all of them.
  [[nodiscard]] std::uint64_t batches_per_epoch() const;

 private:
  /// Moves a training position past an incomplete last batch.
  void settle(loader_position& at) const;

  [[nodiscard]] loader_position after(loader_position at, std::uint64_t rows) const;

  [[nodiscard]] token_batch load(loader_position at) const;

  void read_ahead(std::stop_token const& stop);

  token_streams streams_;
  batch_loader_options options_;
  std::uint64_t size_ = 0;   // samples of an epoch
  loader_position next_;     // of the caller
  loader_position reading_;  // of the thread
  std::optional<mixture_order> order_;
  std::chrono::steady_clock::duration waited_{};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<token_batch> ready_;
  bool ended_ = false;
  std::exception_ptr problem_;
  std::jthread reader_;  // last: it stops before what it uses goes
};

/// Where global batch `batch` of a training run with a constant batch size starts.
[[nodiscard]] constexpr loader_position position_of_batch(std::uint64_t batch,
                                                          std::uint64_t samples,
                                                          std::uint64_t global_batch_size) {
  auto const per_epoch = samples / global_batch_size;
  return {batch / per_epoch, batch % per_epoch * global_batch_size};
}

}  // namespace mpt::data
