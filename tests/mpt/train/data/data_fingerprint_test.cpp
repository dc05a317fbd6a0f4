// The facts of a run's data: equal for equal data in different folders, different for data that
// differ.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/data/data_fingerprint.hpp>
#include <parallel/support/files.hpp>

#include "mpt/train/token_set.hpp"

namespace data_fingerprint_test {

using ids = std::vector<std::int32_t>;

/// `count` different samples of four tokens below 30, the vocabulary of config_of(); at most 28.
std::vector<ids> some_samples(std::int32_t count) {
  std::vector<ids> samples;
  for (std::int32_t i = 0; i < count; ++i) samples.push_back({i, i + 1, 7, i + 2});
  return samples;
}

mpt::train_config config_of(std::filesystem::path const& train,
                            std::filesystem::path const& evaluation) {
  mpt::train_config c;
  c.model.vocab_size = 30;
  c.data.train_loader.streams = {{.local = train}};
  c.data.train_loader.max_seq_len = 4;
  c.data.eval_loaders.push_back(c.data.train_loader);
  c.data.eval_loaders.back().label = "val";
  c.data.eval_loaders.back().streams = {{.local = evaluation}};
  return c;
}

/// The facts of both sets of a configuration that must not depend on how they are stored: values of
/// properties, by their inputs.
std::vector<std::string> values_of(mpt::train_config const& config) {
  std::vector<std::string> out;
  for (auto const& fact : mpt::data_facts(config.model, config.data, {}))
    if (!fact.is_optional) out.push_back(fact.input + ", " + fact.property + ": " + fact.value);
  return out;
}

TEST_CASE("data facts: sizes and tokens of each set do not depend on its folder or compression") {
  test::temporary_folder folder;
  test::write_token_set(folder / "a", some_samples(20));
  test::write_token_set(folder / "b", some_samples(20), "zstd");
  test::write_token_set(folder / "val", some_samples(7));
  auto const values = values_of(config_of(folder / "a", folder / "val"));
  REQUIRE(values.size() == 4);
  CHECK(values[0].starts_with("the data of train_loader, the sizes of its shards: xxh3 "));
  CHECK(values[1].starts_with("the data of train_loader, its tokens: xxh3 "));
  CHECK(values[3].starts_with("the data of eval_loader val, its tokens: xxh3 "));
  CHECK(values == values_of(config_of(folder / "b", folder / "val")));
}

TEST_CASE("data facts: any other token, one more sample or another order change them") {
  test::temporary_folder folder;
  auto values = [&, set_count = 0](std::vector<ids> const& samples) mutable {
    auto const set_folder = folder / std::to_string(set_count++);
    test::write_token_set(set_folder, samples);
    return values_of(config_of(set_folder, set_folder));
  };
  auto const expected = values(some_samples(20));
  CHECK(values(some_samples(20)) == expected);
  CHECK(values(some_samples(21)) != expected);
  for (std::size_t sample = 0; sample < 20; ++sample) {
    auto other = some_samples(20);
    other[sample][2] = 8;
    CAPTURE(sample);
    CHECK(values(other) != expected);
  }
  auto swapped = some_samples(20);
  std::swap(swapped.front(), swapped.back());
  CHECK(values(swapped) != expected);
}

TEST_CASE("data facts: another id or label of a fine-tuning example changes them") {
  auto const facts_with = [](mpt::finetune::example first) {
    mpt::example_set set;
    set.examples = {std::move(first), {{4, 5}, {5, -100}}};
    mpt::run_examples examples;
    examples.train = std::make_shared<mpt::example_set const>(set);
    return mpt::data_facts({}, {}, examples);
  };
  auto const expected = facts_with({{1, 2, 3}, {2, 3, -100}});
  REQUIRE(expected.size() == 1);
  CHECK(expected[0].input == "the examples of train_loader");
  CHECK(facts_with({{1, 2, 3}, {2, 3, -100}}) == expected);
  CHECK(facts_with({{1, 2, 4}, {2, 3, -100}}) != expected);
  CHECK(facts_with({{1, 2, 3}, {-100, 3, -100}}) != expected);
}

}  // namespace data_fingerprint_test
