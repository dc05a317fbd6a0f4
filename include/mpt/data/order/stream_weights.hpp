// The number of samples of each stream in an epoch, by the rule of mosaicml-streaming; the counts
// are the same as its counts.
//
// Weights are relative (`proportion`, on every stream) or absolute (`repeat`, `choose`, or no
// weight, which is every sample once). Streams with relative weights, or without weights under an
// epoch_size, share the epoch: each gets its share rounded down, and the few missing samples go to
// different streams drawn by NumPy's generator from the shuffle seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mpt/data/order/numpy_random.hpp>

namespace mpt::data {

/// The weight of a stream: at most one of the three members is set.
struct stream_weight {
  std::optional<double> proportion{};  ///< share of the epoch relative to other streams
  std::optional<double> repeat{};      ///< occurrences of each sample in an epoch; may be below 1
  std::optional<std::uint64_t> choose{};  ///< number of samples in an epoch
  friend bool operator==(stream_weight const&, stream_weight const&) = default;
};

/// Throws if there are no weights, or if they contradict each other or `epoch_size`.
void require_valid_weights(std::span<stream_weight const> weights,
                           std::optional<std::uint64_t> epoch_size);

/// The number of samples of each stream in an epoch, for streams of `sizes` samples.
[[nodiscard]] std::vector<std::uint64_t> sample_counts(std::span<stream_weight const> weights,
                                                       std::span<std::uint64_t const> sizes,
                                                       std::optional<std::uint64_t> epoch_size,
                                                       std::uint64_t shuffle_seed);

}  // namespace mpt::data
