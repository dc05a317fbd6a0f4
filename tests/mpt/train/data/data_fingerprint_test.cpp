// Equal data in different folders have equal fingerprint lines; data that differ change the line of
// their set.
#include <cstdint>
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

std::vector<ids> rows(std::int32_t count) {
  std::vector<ids> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back({i, i + 1, 7, i + 2});
  return out;
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
std::vector<std::string> sums(std::vector<std::string> lines) {
  for (auto& line : lines) line = line.substr(line.rfind(' ') + 1);
  return lines;
}

TEST_CASE("data fingerprint: each set has a line, which is equal for equal data in other folders") {
  test::temporary_folder folder;
  test::write_token_set(folder / "a", rows(20));
  test::write_token_set(folder / "b", rows(20));
  test::write_token_set(folder / "val", rows(7));
  auto const lines = fingerprint_of(config_of(folder / "a", folder / "val"));
  auto const copy_lines = fingerprint_of(config_of(folder / "b", folder / "val"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("the data of train_loader, "));
  CHECK(lines[1].starts_with("the data of eval_loader val, "));
  CHECK(sums(lines) == sums(copy_lines));
  CHECK(sums(lines)[0] != sums(lines)[1]);
}

TEST_CASE("data fingerprint: another sample, one more sample or another order change the line") {
  test::temporary_folder folder;
  auto checksum = [&, count = 0](std::vector<ids> const& samples) mutable {
    auto const set_folder = folder / std::to_string(count++);
    test::write_token_set(set_folder, samples);
    return sums(fingerprint_of(config_of(set_folder, set_folder))).front();
  };
  auto const expected = checksum(rows(20));
  CHECK(checksum(rows(20)) == expected);
  CHECK(checksum(rows(21)) != expected);
  for (std::size_t const sample : {0, 10, 19}) {
    auto other = rows(20);
    other[sample][2] = 8;
    CHECK(checksum(other) != expected);
  }
  auto reversed = rows(20);
  std::swap(reversed.front(), reversed.back());
  CHECK(checksum(reversed) != expected);
}

TEST_CASE("data fingerprint: the compression of a set does not matter") {
  test::temporary_folder folder;
  test::write_token_set(folder / "plain", rows(20));
  test::write_token_set(folder / "packed", rows(20), "zstd");
  auto const plain = folder / "plain", packed = folder / "packed";
  CHECK(sums(fingerprint_of(config_of(plain, plain))) ==
        sums(fingerprint_of(config_of(packed, packed))));
}

TEST_CASE("data fingerprint: examples are compared by all their ids and labels") {
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
