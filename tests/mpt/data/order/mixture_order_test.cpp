#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <mpt/data/order/mixture_order.hpp>
#include <vector>

namespace mixture_order_test {

using counts = std::vector<std::uint64_t>;
using mpt::data::mixture_order;
using mpt::data::sample_location;
using mpt::data::sample_order_options;
using mpt::data::shuffle;

struct mixture {
  std::vector<counts> shards;
  counts chosen;  // samples of each stream in an epoch

  [[nodiscard]] mixture_order order(sample_order_options const& options,
                                    std::uint64_t epoch) const {
    std::vector<mpt::data::stream_shape> shapes;
    for (std::size_t s = 0; s < shards.size(); ++s) shapes.push_back({shards[s], chosen[s]});
    return {shapes, options, epoch};
  }
};

/// The number of times that each sample of each stream is drawn in the first `epochs` epochs.
std::vector<counts> count_draws(mixture const& mix, sample_order_options const& options,
                                std::uint64_t epochs) {
  std::vector<counts> out;
  for (auto const& shards : mix.shards) {
    std::uint64_t size = 0;
    for (auto const shard : shards) size += shard;
    out.emplace_back(size, 0);
  }
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    auto const order = mix.order(options, epoch);
    counts drawn(mix.chosen.size(), 0);
    for (std::uint64_t position = 0; position < order.size(); ++position) {
      auto const location = order(position);
      ++out.at(location.stream).at(location.sample);
      ++drawn[location.stream];
    }
    CHECK(drawn == mix.chosen);
  }
  return out;
}

TEST_CASE(
    "mixture order: epochs hold the chosen counts, and samples of a stream are drawn evenly") {
  mixture const mix{{{7, 5, 9}, {40}, {3, 3, 2}}, {10, 100, 8}};
  for (auto const mode : {shuffle::none, shuffle::blocks})
    for (std::uint64_t const block : {0U, 1U, 7U, 30U, 1000U})
      for (auto const& stream :
           count_draws(mix, {.mode = mode, .seed = 3, .block_size = block}, 21)) {
        auto const [fewest, highest] = std::minmax_element(stream.begin(), stream.end());
        CHECK(*highest - *fewest <= 1);
      }
}

TEST_CASE("mixture order: a single complete stream keeps its own order") {
  counts const shards{7, 5, 9};
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    auto const order = mixture{{shards}, {21}}.order({.seed = 3, .block_size = 8}, epoch);
    mpt::data::sample_order const stream_order(shards, {.seed = 3, .block_size = 8}, epoch);
    for (std::uint64_t position = 0; position < 21; ++position)
      CHECK(order(position) == sample_location{0, stream_order(position)});
  }
}

TEST_CASE(
    "mixture order: the first blocks hold the streams in proportion, to within three samples") {
  mixture const mix{{{1000}, {500}, {100}}, {700, 200, 100}};
  constexpr std::uint64_t block = 50;
  auto const order = mix.order({.seed = 9, .block_size = block}, 2);
  counts drawn(3, 0);
  for (std::uint64_t position = 0; position < order.size(); ++position) {
    ++drawn[order(position).stream];
    if ((position + 1) % block != 0) continue;
    for (std::size_t s = 0; s < 3; ++s)
      CHECK(std::abs(static_cast<double>(drawn[s]) -
                     static_cast<double>(mix.chosen[s] * (position + 1)) / 1000.0) <= 3.0);
  }
}

TEST_CASE(
    "mixture order: without shuffling streams follow each other and continue in the next epoch") {
  mixture const mix{{{3}, {4}}, {2, 4}};
  auto const first = mix.order({.mode = shuffle::none}, 0);
  auto const second = mix.order({.mode = shuffle::none}, 1);
  std::vector<sample_location> const expected{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {1, 3}};
  for (std::uint64_t position = 0; position < 6; ++position)
    CHECK(first(position) == expected[position]);
  CHECK(second(0) == sample_location{0, 2});
  CHECK(second(1) == sample_location{0, 0});
}

TEST_CASE("mixture order: an epoch of ten million samples is ordered within milliseconds") {
  mixture const mix{{counts(1000, 8192), counts(221, 8192)}, {8'000'000, 2'000'000}};
  (void)mix.order({}, 0);
  auto const begin = std::chrono::steady_clock::now();
  auto const order = mix.order({}, 1);
  CHECK(order.size() == 10'000'000);
  (void)order(9'999'999);
  auto const duration = std::chrono::steady_clock::now() - begin;
  MESSAGE(std::chrono::duration<double, std::milli>(duration).count(), " ms");
  CHECK(duration < std::chrono::milliseconds(50));  // a few tenths of a millisecond on an idle core
}

}  // namespace mixture_order_test
