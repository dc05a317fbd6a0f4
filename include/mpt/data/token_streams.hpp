// The MDS sets a run reads, and how many samples of each an epoch holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <mpt/data/mixture_order.hpp>
#include <mpt/data/token_dataset.hpp>

namespace mpt::data {

class token_streams {
 public:
  /// One set, every sample once.
  token_streams(std::shared_ptr<token_dataset const> set)  // NOLINT: a set is a stream
      : token_streams({std::move(set)}, {}) {}

  /// Several; `chosen` are the samples of each in an epoch, empty for all. The sequence lengths
  /// must be equal.
  token_streams(std::vector<std::shared_ptr<token_dataset const>> sets,
                std::vector<std::uint64_t> chosen)
      : sets_(std::move(sets)), chosen_(std::move(chosen)) {
    parallel::require(!sets_.empty(), "there are no streams; name at least one");
    if (chosen_.empty())
      for (auto const& set : sets_) chosen_.push_back(set->size());
    parallel::require(chosen_.size() == sets_.size(), sets_.size(), " streams and ", chosen_.size(),
                      " sample counts");
    for (auto const& set : sets_)
      parallel::require(set->sequence_length() == sequence_length(),
                        set->reader().folder().native(), ": sequences of ", set->sequence_length(),
                        " tokens beside streams of ", sequence_length());
  }

  /// Samples of an epoch.
  [[nodiscard]] std::uint64_t size() const {
    return std::accumulate(chosen_.begin(), chosen_.end(), std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t sequence_length() const { return sets_[0]->sequence_length(); }
  [[nodiscard]] std::vector<std::uint64_t> const& chosen() const { return chosen_; }
  [[nodiscard]] token_dataset const& set(std::size_t stream) const { return *sets_[stream]; }
  [[nodiscard]] std::size_t count() const { return sets_.size(); }

  /// For messages: the folder of the first set, and how many more there are.
  [[nodiscard]] std::string name() const {
    auto text = sets_[0]->reader().folder().native();
    if (sets_.size() > 1) text += parallel::concat(" and ", sets_.size() - 1, " more");
    return text;
  }

  [[nodiscard]] mixture_order order(sample_order_options const& options,
                                    std::uint64_t epoch) const {
    std::vector<stream_shape> shapes;
    for (std::size_t s = 0; s < sets_.size(); ++s)
      shapes.push_back({sets_[s]->shard_samples(), chosen_[s]});
    return {shapes, options, epoch};
  }

  /// Makes the caches hold what shuffled reading jumps between, compressed shards in memory; throws
  /// when that is more than `max_bytes`.
  void reserve_cache(mixture_order const& order, std::uint64_t max_bytes) const {
    std::uint64_t all = 0;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      auto const& reader = sets_[s]->reader();
      std::uint64_t largest = 0;
      for (auto const& shard : reader.shards())
        if (shard.zip) largest = std::max(largest, shard.raw.bytes + 4 * shard.samples);
      auto const shards = order.open_shards(s) + 2;  // another epoch may touch one or two more
      auto const needed = largest * std::min<std::uint64_t>(shards, reader.shards().size());
      all += needed;
      parallel::require(all <= max_bytes, reader.folder().native(), ": a shuffle block of ",
                        order.block_size(), " samples spans ", shards, " compressed shards, ",
                        all >> 20, " MiB in memory, more than the ", max_bytes >> 20,
                        " MiB allowed; lower shuffle_block_size or decompress the set");
      reader.grow_cache(needed, largest > 0 ? shards : std::min(shards, most_open_shards()));
    }
  }

 private:
  std::vector<std::shared_ptr<token_dataset const>> sets_;
  std::vector<std::uint64_t> chosen_;
};

}  // namespace mpt::data
