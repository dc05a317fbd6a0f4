#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <mpt/data/mixture_order.hpp>
#include <vector>

namespace mixture_order_test {

using counts = std::vector<std::uint64_t>;
using mpt::data::mixture_order;
using mpt::data::sample_order_options;
using mpt::data::sample_place;
using mpt::data::shuffle;

struct mixture {
  std::vector<counts> shards;
  counts chosen;

  [[nodiscard]] mixture_order order(sample_order_options const& options,
                                    std::uint64_t epoch) const {
    std::vector<mpt::data::stream_shape> shapes;
    for (std::size_t s = 0; s < shards.size(); ++s) shapes.push_back({shards[s], chosen[s]});
    return {shapes, options, epoch};
  }
};

/// How often each sample of each stream comes in the given epochs.
std::vector<counts> times(mixture const& mix, sample_order_options const& options,
                          std::uint64_t epochs) {
  std::vector<counts> out;
  for (auto const& shards : mix.shards) {
    std::uint64_t size = 0;
    for (auto const shard : shards) size += shard;
    out.emplace_back(size, 0);
  }
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    auto const order = mix.order(options, epoch);
    counts taken(mix.chosen.size(), 0);
    for (std::uint64_t at = 0; at < order.size(); ++at) {
      auto const place = order(at);
      ++out.at(place.stream).at(place.sample);
      ++taken[place.stream];
    }
    CHECK(taken == mix.chosen);
  }
  return out;
}

TEST_CASE(
    "every epoch holds what was chosen, and over epochs all samples of a stream come evenly") {
  mixture const mix{{{7, 5, 9}, {40}, {3, 3, 2}}, {10, 100, 8}};
  for (auto const mode : {shuffle::none, shuffle::blocks})
    for (std::uint64_t const block : {0U, 1U, 7U, 30U, 1000U})
      for (auto const& stream : times(mix, {.mode = mode, .seed = 3, .block_size = block}, 21)) {
        auto const [least, most] = std::minmax_element(stream.begin(), stream.end());
        CHECK(*most - *least <= 1);
      }
}

TEST_CASE("one stream in full is its own order") {
  counts const shards{7, 5, 9};
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    auto const order = mixture{{shards}, {21}}.order({.seed = 3, .block_size = 8}, epoch);
    mpt::data::sample_order const own(shards, {.seed = 3, .block_size = 8}, epoch);
    for (std::uint64_t at = 0; at < 21; ++at) CHECK(order(at) == sample_place{0, own(at)});
  }
}

TEST_CASE("every stretch of blocks holds the streams in proportion, to a sample") {
  mixture const mix{{{1000}, {500}, {100}}, {700, 200, 100}};
  constexpr std::uint64_t block = 50;
  auto const order = mix.order({.seed = 9, .block_size = block}, 2);
  counts taken(3, 0);
  for (std::uint64_t at = 0; at < order.size(); ++at) {
    ++taken[order(at).stream];
    if ((at + 1) % block != 0) continue;
    for (std::size_t s = 0; s < 3; ++s)
      CHECK(std::abs(static_cast<double>(taken[s]) -
                     static_cast<double>(mix.chosen[s] * (at + 1)) / 1000.0) <= 3.0);
  }
}

TEST_CASE("without shuffling streams follow one another, and go on in the next epoch") {
  mixture const mix{{{3}, {4}}, {2, 4}};
  auto const first = mix.order({.mode = shuffle::none}, 0);
  auto const second = mix.order({.mode = shuffle::none}, 1);
  std::vector<sample_place> const expected{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {1, 3}};
  for (std::uint64_t at = 0; at < 6; ++at) CHECK(first(at) == expected[at]);
  CHECK(second(0) == sample_place{0, 2});
  CHECK(second(1) == sample_place{0, 0});
}

TEST_CASE("the order of an epoch of ten million samples is made in milliseconds") {
  mixture const mix{{counts(1000, 8192), counts(221, 8192)}, {8'000'000, 2'000'000}};
  (void)mix.order({}, 0);
  auto const begin = std::chrono::steady_clock::now();
  auto const order = mix.order({}, 1);
  CHECK(order.size() == 10'000'000);
  (void)order(9'999'999);
  auto const spent = std::chrono::steady_clock::now() - begin;
  MESSAGE(std::chrono::duration<double, std::milli>(spent).count(), " ms");
  CHECK(spent < std::chrono::milliseconds(50));  // some tenth of a millisecond on an idle core
}

}  // namespace mixture_order_test
