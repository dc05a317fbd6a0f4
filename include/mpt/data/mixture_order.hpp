// In which order an epoch visits the samples of several streams: a function one can index.
//
// Stream s gives c_s samples to every epoch of E = sum c_s. Its samples are drawn from an endless
// row of its own epochs (sample_order.hpp), so pass after pass every sample comes equally often,
// whatever c_s is. The streams are mixed in blocks: the first b blocks of B hold floor(b B c_s / E)
// samples of stream s (so every stretch of an epoch holds the streams in proportion, to a sample),
// and inside a block one permutation mixes them. One stream is just its row. Without shuffling,
// streams follow one another.
// Like sample_order a pure function of (shard sizes, chosen, seed, epoch, block size), of no rank.
// Cost: an epoch O(shards); a sample O(streams) and twice sample_order's. Memory O(shards).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/data/sample_order.hpp>

namespace mpt::data {

/// A stream as the order sees it.
struct stream_shape {
  std::span<std::uint64_t const> shard_samples;
  std::uint64_t chosen;  ///< samples of it in an epoch
};

/// Sample `sample` of stream `stream`.
struct sample_place {
  std::size_t stream;
  std::uint64_t sample;
  friend bool operator==(sample_place const&, sample_place const&) = default;
};

class mixture_order {
 public:
  mixture_order(std::span<stream_shape const> shapes, sample_order_options const& options,
                std::uint64_t epoch);

  /// Samples of the epoch.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t block_size() const { return options_.block_size; }

  /// What stands at `position` < size() of this epoch.
  [[nodiscard]] sample_place operator()(std::uint64_t position) const;

  /// The most shards of stream `s` that reading in order jumps between.
  [[nodiscard]] std::size_t open_shards(std::size_t s) const;

 private:
  struct row {
    std::uint64_t chosen;
    std::uint64_t size;
    std::uint64_t first;  // its place in the stream's endless row
    std::vector<sample_order> passes{};
  };
  static constexpr std::uint32_t mixing = std::uint32_t{1} << 31;  // not a block of sample_order

  /// Samples of stream s in the first `block` blocks.
  [[nodiscard]] std::uint64_t before_block(std::size_t s, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t start(std::uint64_t block) const;

  [[nodiscard]] sample_place at(std::size_t s, std::uint64_t drawn) const;

  sample_order_options options_;
  std::uint32_t epoch_;
  std::uint64_t size_ = 0;
  std::vector<row> rows_;
};

}  // namespace mpt::data
