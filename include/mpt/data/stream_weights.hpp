// How many samples of each stream an epoch holds: mosaicml-streaming's rule, count for count.
//
// Weights are relative (`proportion`, on every stream) or absolute (`repeat`, `choose`, or nothing,
// which is every sample once). Relative ones, and streams without weights under an epoch_size,
// share out the epoch: each gets the whole part of its share, and the few samples missing go to
// different streams drawn by NumPy's generator from the shuffle seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mpt/data/numpy_random.hpp>

namespace mpt::data {

/// At most one of the three.
struct stream_weight {
  std::optional<double> proportion{};     ///< of the epoch, relative to the other streams'
  std::optional<double> repeat{};         ///< times every sample comes in an epoch; may be below 1
  std::optional<std::uint64_t> choose{};  ///< samples an epoch holds
  friend bool operator==(stream_weight const&, stream_weight const&) = default;
};

/// Throws unless the weights go together with each other and with `epoch_size`.
void require_valid_weights(std::span<stream_weight const> weights,
                           std::optional<std::uint64_t> epoch_size);

/// Samples of each stream in an epoch, for streams of `sizes` samples.
[[nodiscard]] std::vector<std::uint64_t> choose_samples(std::span<stream_weight const> weights,
                                                        std::span<std::uint64_t const> sizes,
                                                        std::optional<std::uint64_t> epoch_size,
                                                        std::uint64_t shuffle_seed);

}  // namespace mpt::data
