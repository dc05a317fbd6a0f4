// The sample counts of streams equal those of mosaicml-streaming 0.13 (Stream.apply_weights), which
// tests/reference/streams.py writes to tests/golden/stream_weights.json.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/data/order/stream_weights.hpp>
#include <support/golden/golden.hpp>

#include "mpt/data/scratch.hpp"

namespace stream_weights_test {

using counts = std::vector<std::uint64_t>;
using mpt::data::stream_weight;

/// The value of a key that may be absent or null.
template <class T>
std::optional<T> optional_value(nlohmann::json const& object, std::string const& key) {
  auto const entry = object.find(key);
  if (entry == object.end() || entry->is_null()) return std::nullopt;
  return entry->get<T>();
}

TEST_CASE("stream weights: the sample counts of an epoch equal those of mosaicml-streaming") {
  auto const cases =
      nlohmann::json::parse(data_test::get_file(test::golden_folder() / "stream_weights.json"));
  CHECK(cases.size() == 18);
  for (auto const& reference : cases) {
    std::vector<stream_weight> weights;
    for (auto const& weight : reference.at("weights"))
      weights.push_back({.proportion = optional_value<double>(weight, "proportion"),
                         .repeat = optional_value<double>(weight, "repeat"),
                         .choose = optional_value<std::uint64_t>(weight, "choose")});
    CHECK(mpt::data::sample_counts(weights, reference.at("sizes").get<counts>(),
                                   optional_value<std::uint64_t>(reference, "epoch_size"),
                                   reference.at("seed")) == reference.at("chosen").get<counts>());
  }
}

TEST_CASE("stream weights: weights that contradict each other are refused") {
  auto const error = [](std::vector<stream_weight> const& weights, counts const& sizes,
                        std::optional<std::uint64_t> epoch_size = std::nullopt) {
    return data_test::message_of(
        [&] { (void)mpt::data::sample_counts(weights, sizes, epoch_size, 1); });
  };
  using data_test::contains;
  CHECK(contains(error({}, {}), "no streams"));
  CHECK(contains(error({{.proportion = 1, .repeat = 2}}, {5}), "stream 0: give at most one of"));
  CHECK(contains(error({{.proportion = 1}, {}}, {5, 5}), "stream 1: proportion on some"));
  CHECK(contains(error({{.repeat = -1}}, {5}), "must not be negative"));
  CHECK(contains(error({{.choose = 1}}, {5}, 3), "epoch_size goes with proportion"));
  CHECK(contains(error({{.proportion = 0}}, {5}), "are all zero"));
  for (auto const& message :
       {error({{}}, {5}, std::uint64_t{1} << 53U), error({{.repeat = 1e18}}, {67}),
        error({{.choose = std::uint64_t{1} << 63U}, {}}, {5, 5})})
    CHECK(contains(message, "samples is too long; lower epoch_size, or repeat or choose"));
  CHECK(contains(error({{.choose = 1}}, {0}), "stream 0 has no samples"));
}

}  // namespace stream_weights_test
