// The order in which an epoch visits the samples of several streams, as an indexable function.
//
// Stream s gives c_s samples to every epoch of E = sum c_s. Its samples come from the endless
// sequence of its own orders (sample_order.hpp), each a pass over the stream, so that every sample
// is drawn equally often whatever c_s is. The streams are mixed in blocks: the first b blocks of B
// samples hold floor(b B c_s / E) samples of stream s (so every stretch of an epoch holds the
// streams in proportion, to a sample), and one permutation per block mixes them. A single stream
// keeps its own order. Without shuffling, the streams follow one another. Like sample_order this is
// a pure function of (shard sizes, chosen, seed, epoch, block size); ranks do not matter. Cost: an
// epoch O(shards); a sample O(streams) and twice that of sample_order. Memory: O(shards).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/data/order/sample_order.hpp>

namespace mpt::data {

/// The sizes of a stream that determine the order.
struct stream_shape {
  std::span<std::uint64_t const> shard_samples;
  std::uint64_t chosen;  ///< number of its samples in an epoch
};

/// A sample of one of the streams.
struct sample_location {
  std::size_t stream;
  std::uint64_t sample;
  friend bool operator==(sample_location const&, sample_location const&) = default;
};

class mixture_order {
 public:
  mixture_order(std::span<stream_shape const> shapes, sample_order_options const& options,
                std::uint64_t epoch);

  /// Samples of the epoch.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t block_size() const { return options_.block_size; }
  [[nodiscard]] bool is_shuffled() const { return options_.mode != shuffle::none; }

  /// The sample at `position` < size() of this epoch.
  [[nodiscard]] sample_location operator()(std::uint64_t position) const;

  /// The largest number of shards of stream `s` that sequential reading alternates between.
  [[nodiscard]] std::size_t open_shards(std::size_t s) const;

 private:
  struct stream_epoch {
    std::uint64_t chosen;
    std::uint64_t size;
    std::uint64_t first;  // position of the epoch's first sample in the endless sequence
    std::vector<sample_order> stream_orders{};
  };
  static constexpr std::uint32_t mixing_stream = std::uint32_t{1}
                                                 << 31;  // not a block of sample_order

  /// Samples of stream s in the first `block` blocks.
  [[nodiscard]] std::uint64_t samples_before(std::size_t s, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t block_start(std::uint64_t block) const;

  [[nodiscard]] sample_location location(std::size_t s, std::uint64_t drawn) const;

  sample_order_options options_;
  std::uint32_t epoch_;
  std::uint64_t size_ = 0;
  std::vector<stream_epoch> streams_;
};

}  // namespace mpt::data
