// The order in which an epoch visits the samples: a permutation that can be indexed, not a list.
//
// Epoch e of seed s first permutes the shards (Fisher-Yates), then cuts the samples, in that shard
// order, into blocks and permutes each block by a Feistel network on its positions with cycle
// walking (Luby and Rackoff 1988; Black and Rogaway 2002), all drawn from Philox keyed by s. So
// position -> sample is a pure function of (shard sizes, s, e, block size): it does not depend on
// ranks or workers, resuming in mid-epoch costs nothing, and only the few shards of one block are
// open at a time. Cost: O(shards) at the start of an epoch; O(log shards) and some 20 Philox blocks
// a sample; the permutation takes no memory. The order differs from that of mosaicml-streaming,
// which needs NumPy's generators.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/philox.hpp>

namespace mpt::data {

/// Whether samples come in the set's order, or shuffled within blocks.
enum class shuffle { none, blocks };

struct sample_order_options {
  shuffle mode = shuffle::blocks;
  std::uint64_t seed = 9176;     ///< LLM Foundry's default shuffle_seed
  std::uint64_t block_size = 0;  ///< samples; 0: four times the largest shard
};

/// A permutation of 0 .. size - 1 for every (seed, epoch, block), evaluated point by point.
[[nodiscard]] constexpr std::uint64_t permuted(std::uint64_t position, std::uint64_t size,
                                               std::uint64_t seed, std::uint32_t epoch,
                                               std::uint32_t block) {
  if (size < 2) return position;
  parallel::random_words<2> const key{static_cast<std::uint32_t>(seed),
                                      static_cast<std::uint32_t>(seed >> 32)};
  // The domain 4^half_bits is below 4 * size, but at least 256: over smaller domains six rounds do
  // not reach all orders evenly (measured: chi-squared over the 120 orders of five samples).
  auto const half_bits = std::max(4, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  std::uint64_t const mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = position >> half_bits;
    std::uint64_t right = position & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      auto const words = parallel::philox4x32({static_cast<std::uint32_t>(right), block, epoch,
                                               parallel::stream_id("sample_order/block") + round},
                                              key);
      left = std::exchange(right, left ^ (words[0] & mask));
    }
    position = left << half_bits | right;
  } while (position >= size);
  return position;
}

class sample_order {
 public:
  /// `shard_samples`: the number of samples of every shard, in the order of the index.
  sample_order(std::span<std::uint64_t const> shard_samples, sample_order_options options,
               std::uint64_t epoch);

  [[nodiscard]] std::uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::uint64_t block_size() const { return options_.block_size; }

  /// The sample (index in the set) at `position` < size() of this epoch.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t position) const;

  /// The largest number of shards that one block touches: these must stay open for fast reading.
  [[nodiscard]] std::size_t shards_in_block() const;

 private:
  /// Uniform in 0 .. limit - 1, for step `limit` of the shard shuffle.
  [[nodiscard]] std::size_t draw(std::size_t limit) const;

  sample_order_options options_;
  std::uint32_t epoch_;
  std::vector<std::uint64_t> ends_;           // of the shards, in this epoch's order
  std::vector<std::uint64_t> first_samples_;  // of the same shards, as indices in the set
};

}  // namespace mpt::data
