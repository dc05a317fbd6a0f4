// How many samples of each stream an epoch holds: mosaicml-streaming's rule, count for count.
//
// Weights are relative (`proportion`, on every stream) or absolute (`repeat`, `choose`, or nothing,
// which is every sample once). Relative ones, and streams without weights under an epoch_size,
// share out the epoch: each gets the whole part of its share, and the few samples missing go to
// different streams drawn by NumPy's generator from the shuffle seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
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

namespace detail {

/// NumPy's sum of doubles: eight accumulators, and halves beyond 128 values.
[[nodiscard]] inline double numpy_sum(std::span<double const> values) {
  auto const n = values.size();
  if (n > 128) {
    auto const half = n / 2 - n / 2 % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  if (n < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  double r[8];
  for (std::size_t i = 0; i < 8; ++i) r[i] = values[i];
  std::size_t at = 8;
  for (; at + 8 <= n; at += 8)
    for (std::size_t i = 0; i < 8; ++i) r[i] += values[at + i];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; at < n; ++at) sum += values[at];
  return sum;
}

}  // namespace detail

/// Throws unless the weights go together with each other and with `epoch_size`.
inline void require_valid_weights(std::span<stream_weight const> weights,
                                  std::optional<std::uint64_t> epoch_size) {
  parallel::require(!weights.empty(), "there are no streams; name at least one");
  bool absolute = false;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto const& w = weights[i];
    parallel::require(w.proportion.has_value() + w.repeat.has_value() + w.choose.has_value() <= 1,
                      "stream ", i,
                      ": give at most one of proportion, repeat and choose; the others follow");
    for (auto const& value : {w.proportion, w.repeat})
      parallel::require(!value || (std::isfinite(*value) && *value >= 0), "stream ", i,
                        ": a weight must not be negative");
    parallel::require(w.proportion.has_value() == weights[0].proportion.has_value(), "stream ", i,
                      ": proportion on some streams and not on others; relative and absolute "
                      "weights do not go together");
    absolute = absolute || w.repeat || w.choose;
  }
  parallel::require(!absolute || !epoch_size,
                    "epoch_size goes with proportion or no weights; with repeat or choose the "
                    "epoch is their sum");
}

/// Samples of each stream in an epoch, for streams of `sizes` samples.
[[nodiscard]] inline std::vector<std::uint64_t> choose_samples(
    std::span<stream_weight const> weights, std::span<std::uint64_t const> sizes,
    std::optional<std::uint64_t> epoch_size, std::uint64_t shuffle_seed) {
  require_valid_weights(weights, epoch_size);
  bool const relative = weights[0].proportion.has_value();
  std::vector<std::uint64_t> chosen;
  if (relative || epoch_size) {
    auto const total =
        epoch_size.value_or(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
    std::vector<double> shares;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      shares.push_back(relative ? *weights[i].proportion : static_cast<double>(sizes[i]));
    double const sum = detail::numpy_sum(shares);
    parallel::require(sum > 0, "the proportions of the streams are all zero");
    for (double const share : shares)
      chosen.push_back(static_cast<std::uint64_t>(static_cast<double>(total) * (share / sum)));
    auto const given = std::accumulate(chosen.begin(), chosen.end(), std::uint64_t{0});
    if (given < total)
      for (auto const i : numpy_random(shuffle_seed)
                              .choose(chosen.size(), static_cast<std::size_t>(total - given)))
        ++chosen[i];
  } else {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      chosen.push_back(weights[i].repeat ? static_cast<std::uint64_t>(*weights[i].repeat *
                                                                      static_cast<double>(sizes[i]))
                                         : weights[i].choose.value_or(sizes[i]));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    parallel::require(chosen[i] == 0 || sizes[i] > 0, "stream ", i, " has no samples, but ",
                      chosen[i], " are to be taken from it");
  return chosen;
}

}  // namespace mpt::data
