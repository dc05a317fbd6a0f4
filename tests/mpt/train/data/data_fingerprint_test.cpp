// The fingerprint of a run's data has one line per set, which ends in a checksum: equal for equal
// data in different folders, different for data that differ.
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

std::vector<std::string> fingerprint_of(mpt::train_config const& config) {
  return mpt::data_fingerprint(config.model, config.data, {});
}

/// The checksums of fingerprint lines, without the folders' names.
std::vector<std::string> checksums(std::vector<std::string> lines) {
  for (auto& line : lines) line = line.substr(line.rfind(' ') + 1);
  return lines;
}

TEST_CASE("data fingerprint: each set has a line, whose checksum does not depend on its folder") {
  test::temporary_folder folder;
  test::write_token_set(folder / "a", some_samples(20));
  test::write_token_set(folder / "b", some_samples(20));
  test::write_token_set(folder / "val", some_samples(7));
  auto const lines = fingerprint_of(config_of(folder / "a", folder / "val"));
  auto const copy_lines = fingerprint_of(config_of(folder / "b", folder / "val"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("the data of train_loader, "));
  CHECK(lines[1].starts_with("the data of eval_loader val, "));
  CHECK(checksums(lines) == checksums(copy_lines));
  CHECK(checksums(lines)[0] != checksums(lines)[1]);
}

TEST_CASE("data fingerprint: another token, one more sample or another order change the line") {
  test::temporary_folder folder;
  auto checksum = [&, set_count = 0](std::vector<ids> const& samples) mutable {
    auto const set_folder = folder / std::to_string(set_count++);
    test::write_token_set(set_folder, samples);
    return checksums(fingerprint_of(config_of(set_folder, set_folder))).front();
  };
  auto const expected = checksum(some_samples(20));
  CHECK(checksum(some_samples(20)) == expected);
  CHECK(checksum(some_samples(21)) != expected);
  for (std::size_t const sample : {0, 10, 19}) {  // the first, middle and last, which are read
    auto other = some_samples(20);
    other[sample][2] = 8;
    CHECK(checksum(other) != expected);
  }
  auto swapped = some_samples(20);
  std::swap(swapped.front(), swapped.back());
  CHECK(checksum(swapped) != expected);
}

TEST_CASE("data fingerprint: the compression of a set does not matter") {
  test::temporary_folder folder;
  test::write_token_set(folder / "plain", some_samples(20));
  test::write_token_set(folder / "compressed", some_samples(20), "zstd");
  auto const plain = folder / "plain", compressed = folder / "compressed";
  CHECK(checksums(fingerprint_of(config_of(plain, plain))) ==
        checksums(fingerprint_of(config_of(compressed, compressed))));
}

TEST_CASE("data fingerprint: another id or label of a fine-tuning example changes the line") {
  auto const lines_with = [](mpt::finetune::example first) {
    mpt::example_set set;
    set.examples = {std::move(first), {{4, 5}, {5, -100}}};
    mpt::run_examples examples;
    examples.train = std::make_shared<mpt::example_set const>(set);
    return mpt::data_fingerprint({}, {}, examples);
  };
  auto const expected = lines_with({{1, 2, 3}, {2, 3, -100}});
  REQUIRE(expected.size() == 1);
  CHECK(expected[0].starts_with("the examples of train_loader "));
  CHECK(lines_with({{1, 2, 3}, {2, 3, -100}}) == expected);
  CHECK(lines_with({{1, 2, 4}, {2, 3, -100}}) != expected);
  CHECK(lines_with({{1, 2, 3}, {-100, 3, -100}}) != expected);
}

}  // namespace data_fingerprint_test
