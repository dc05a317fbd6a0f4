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

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
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
  [[nodiscard]] parallel::matrix_view<std::int32_t const> view() const {
    return {ids.data(),
            {static_cast<parallel::index>(rows), static_cast<parallel::index>(sequence_length)}};
  }
};

class batch_loader {
 public:
  /// Starts reading at `options.start`. Throws when a batch does not fit in the set.
  batch_loader(token_streams streams, batch_loader_options const& options)
      : streams_(std::move(streams)), options_(options), next_(options.start) {
    parallel::require(
        options_.first_row <= options_.last_row && options_.last_row <= options_.global_batch_size,
        "rows [", options_.first_row, ", ", options_.last_row,
        ") are not a share of a global batch of ", options_.global_batch_size);
    parallel::require(options_.prefetch > 0, "a loader reads at least one batch ahead");
    bool const train = options_.mode == loader_mode::train;
    size_ = streams_.size();
    if (train && options_.epoch_batches > 0)
      size_ = std::min(size_, options_.epoch_batches * options_.global_batch_size);
    parallel::require(!train || size_ >= options_.global_batch_size, streams_.name(), ": has ",
                      size_, " samples, fewer than one global batch of ",
                      options_.global_batch_size,
                      "; prepare more data or lower global_train_batch_size");
    parallel::require(options_.start.sample_in_epoch <= size_, streams_.name(), ": has ", size_,
                      " samples, a run cannot resume at sample ", options_.start.sample_in_epoch,
                      ": this is not the set it was trained on");
    if (!train) options_.order.mode = shuffle::none;
    settle(next_);
    reading_ = next_;
    order_.emplace(streams_.order(options_.order, reading_.epoch));
    streams_.reserve_cache(*order_, options_.max_cache_bytes);
    reader_ = std::jthread([this](std::stop_token const& stop) { read_ahead(stop); });
  }

  batch_loader(batch_loader const&) = delete;
  batch_loader& operator=(batch_loader const&) = delete;
  ~batch_loader() = default;

  /// The next batch; nothing after the last one of an evaluation. Rethrows what went wrong in
  /// reading, at the batch where it did.
  [[nodiscard]] std::optional<token_batch> next() {
    std::unique_lock lock(mutex_);
    if (ready_.empty() && !ended_) {
      auto const begin = std::chrono::steady_clock::now();
      changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
      waited_ += std::chrono::steady_clock::now() - begin;
    }
    if (ready_.empty()) {
      if (problem_) std::rethrow_exception(problem_);
      return std::nullopt;
    }
    auto batch = std::move(ready_.front());
    ready_.pop_front();
    next_ = after(batch.position, batch.global_rows);
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  /// Where the batch after the last one taken starts: save this, give it as `start` to resume.
  [[nodiscard]] loader_position position() const { return next_; }

  /// How long `next` has waited for reading so far.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const { return waited_; }

  /// Complete batches an epoch has in training; in evaluation all of them.
  [[nodiscard]] std::uint64_t batches_per_epoch() const {
    auto const group = options_.global_batch_size;
    return options_.mode == loader_mode::train ? size_ / group : (size_ + group - 1) / group;
  }

 private:
  /// Moves a training position past an incomplete last batch.
  void settle(loader_position& at) const {
    if (options_.mode == loader_mode::train &&
        size_ - at.sample_in_epoch < options_.global_batch_size)
      at = {at.epoch + 1, 0};
  }

  [[nodiscard]] loader_position after(loader_position at, std::uint64_t rows) const {
    at.sample_in_epoch += rows;
    settle(at);
    return at;
  }

  [[nodiscard]] token_batch load(loader_position at) const {
    token_batch out;
    out.position = at;
    out.sequence_length = streams_.sequence_length();
    out.global_rows = std::min(options_.global_batch_size, size_ - at.sample_in_epoch);
    auto const last = std::min(options_.last_row, out.global_rows);
    auto const first = std::min(options_.first_row, last);
    out.rows = last - first;
    out.ids.resize(out.rows * out.sequence_length);
    for (std::uint64_t row = 0; row < out.rows; ++row) {
      auto const place = (*order_)(at.sample_in_epoch + first + row);
      streams_.set(place.stream)
          .sample(place.sample,
                  std::span(out.ids).subspan(row * out.sequence_length, out.sequence_length));
    }
    return out;
  }

  void read_ahead(std::stop_token const& stop) {
    try {
      std::uint64_t epoch = reading_.epoch;
      while (!stop.stop_requested() && reading_.sample_in_epoch < size_) {
        if (epoch != reading_.epoch)
          order_.emplace(streams_.order(options_.order, epoch = reading_.epoch));
        auto batch = load(reading_);
        reading_ = after(reading_, batch.global_rows);
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return ready_.size() < options_.prefetch; })) return;
        ready_.push_back(std::move(batch));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      std::scoped_lock const lock(mutex_);
      problem_ = std::current_exception();
    }
    {
      std::scoped_lock const lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

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
