// The MDS sets that a run reads, and how many samples of each an epoch holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/data/order/mixture_order.hpp>
#include <mpt/data/token_dataset.hpp>

namespace mpt::data {

class token_streams {
 public:
  /// One set, every sample once.
  token_streams(std::shared_ptr<token_dataset const> set)  // NOLINT: a set is a stream
      : token_streams({std::move(set)}, {}) {}

  /// Several sets; `chosen` are the numbers of samples of each in an epoch; empty: all samples. The
  /// sequence lengths must be equal.
  token_streams(std::vector<std::shared_ptr<token_dataset const>> sets,
                std::vector<std::uint64_t> chosen);

  /// Samples of an epoch.
  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] std::uint64_t sequence_length() const { return sets_[0]->sequence_length(); }
  [[nodiscard]] std::vector<std::uint64_t> const& chosen() const { return chosen_; }
  [[nodiscard]] token_dataset const& set(std::size_t stream) const { return *sets_[stream]; }
  [[nodiscard]] std::size_t count() const { return sets_.size(); }

  /// For messages: the folder of the first set, and how many more there are.
  [[nodiscard]] std::string name() const;

  [[nodiscard]] mixture_order order(sample_order_options const& options, std::uint64_t epoch) const;

  /// Makes the caches large enough for the shards that shuffled reading alternates between. Throws
  /// if decompressed shards would take more than `max_bytes` of memory.
  void reserve_cache(mixture_order const& order, std::uint64_t max_bytes) const;

  /// The cache of the remote sets; null where all sets are local.
  [[nodiscard]] std::shared_ptr<shard_cache> remote_cache() const;

  /// Throws where the cache's limit is too small for the shards that `window` samples in a row are
  /// read from; `wraps`: a row may go on in the next epoch.
  void require_room(mixture_order const& order, std::uint64_t window, bool wraps) const;

  /// The shards in the cache that hold the samples, each once.
  [[nodiscard]] std::vector<shard_location> shards_of(
      std::span<sample_location const> samples) const;

  /// Closes the remote shards that hold none of the samples.
  void close_others(std::span<sample_location const> samples) const;

 private:
  std::vector<std::shared_ptr<token_dataset const>> sets_;
  std::vector<std::uint64_t> chosen_;
};

}  // namespace mpt::data
