#include <mpt/data/order/stream_weights.hpp>

#include <cmath>
#include <cstddef>
#include <numeric>

#include <parallel/core/error.hpp>

namespace mpt::data {
namespace {

/// NumPy's sum of doubles: eight accumulators, and recursion on halves beyond 128 values.
[[nodiscard]] double numpy_sum(std::span<double const> values) {
  auto const n = values.size();
  if (n > 128) {
    auto const half = n / 2 - n / 2 % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  if (n < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  double partial_sums[8];
  for (std::size_t i = 0; i < 8; ++i) partial_sums[i] = values[i];
  std::size_t offset = 8;
  for (; offset + 8 <= n; offset += 8)
    for (std::size_t i = 0; i < 8; ++i) partial_sums[i] += values[offset + i];
  double sum = ((partial_sums[0] + partial_sums[1]) + (partial_sums[2] + partial_sums[3])) +
               ((partial_sums[4] + partial_sums[5]) + (partial_sums[6] + partial_sums[7]));
  for (; offset < n; ++offset) sum += values[offset];
  return sum;
}

/// A number of samples that counting with doubles keeps exact.
[[nodiscard]] std::uint64_t exact_count(double samples) {
  parallel::require(samples < 0x1p53, "an epoch of ", samples,
                    " samples is too long; lower epoch_size, or repeat or choose of a stream");
  return static_cast<std::uint64_t>(samples);
}

}  // namespace

void require_valid_weights(std::span<stream_weight const> weights,
                           std::optional<std::uint64_t> epoch_size) {
  parallel::require(!weights.empty(), "there are no streams; name at least one");
  bool has_absolute = false;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto const& weight = weights[i];
    parallel::require(
        weight.proportion.has_value() + weight.repeat.has_value() + weight.choose.has_value() <= 1,
        "stream ", i, ": give at most one of proportion, repeat and choose; the others follow");
    for (auto const& value : {weight.proportion, weight.repeat})
      parallel::require(!value || (std::isfinite(*value) && *value >= 0), "stream ", i,
                        ": a weight must not be negative");
    parallel::require(weight.proportion.has_value() == weights[0].proportion.has_value(), "stream ",
                      i,
                      ": proportion on some streams and not on others; relative and absolute "
                      "weights do not go together");
    has_absolute = has_absolute || weight.repeat || weight.choose;
  }
  parallel::require(!has_absolute || !epoch_size,
                    "epoch_size goes with proportion or no weights; with repeat or choose the "
                    "epoch is their sum");
}

std::vector<std::uint64_t> sample_counts(std::span<stream_weight const> weights,
                                         std::span<std::uint64_t const> sizes,
                                         std::optional<std::uint64_t> epoch_size,
                                         std::uint64_t shuffle_seed) {
  require_valid_weights(weights, epoch_size);
  bool const is_relative = weights[0].proportion.has_value();
  std::vector<std::uint64_t> chosen;
  if (is_relative || epoch_size) {
    auto const total = exact_count(static_cast<double>(
        epoch_size.value_or(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}))));
    std::vector<double> shares;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      shares.push_back(is_relative ? *weights[i].proportion : static_cast<double>(sizes[i]));
    double const sum = numpy_sum(shares);
    parallel::require(sum > 0, "the proportions of the streams are all zero");
    for (double const share : shares)
      chosen.push_back(static_cast<std::uint64_t>(static_cast<double>(total) * (share / sum)));
    auto const assigned = std::accumulate(chosen.begin(), chosen.end(), std::uint64_t{0});
    if (assigned < total)
      for (auto const i : numpy_random(shuffle_seed)
                              .choose(chosen.size(), static_cast<std::size_t>(total - assigned)))
        ++chosen[i];
  } else {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      chosen.push_back(exact_count(
          weights[i].repeat ? *weights[i].repeat * static_cast<double>(sizes[i])
                            : static_cast<double>(weights[i].choose.value_or(sizes[i]))));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    parallel::require(chosen[i] == 0 || sizes[i] > 0, "stream ", i, " has no samples, but ",
                      chosen[i], " are to be taken from it");
  return chosen;
}

}  // namespace mpt::data
