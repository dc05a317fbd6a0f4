// Equal data have equal lines, whatever their folder; what differs is told by the line of its set.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/data_fingerprint.hpp>
#include <parallel/support/files.hpp>

#include "token_set.hpp"

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
  c.train_loader.streams = {{.local = train}};
  c.train_loader.max_seq_len = 4;
  c.eval_loaders.push_back(c.train_loader);
  c.eval_loaders.back().label = "val";
  c.eval_loaders.back().streams = {{.local = evaluation}};
  return c;
}

/// Without the folders' names.
std::vector<std::string> sums(std::vector<std::string> lines) {
  for (auto& line : lines) line = line.substr(line.rfind(' ') + 1);
  return lines;
}

TEST_CASE("a line a set, equal for equal data in other folders") {
  test::temporary_folder folder;
  test::write_token_set(folder / "a", rows(20));
  test::write_token_set(folder / "b", rows(20));
  test::write_token_set(folder / "val", rows(7));
  auto const here = mpt::data_fingerprint(config_of(folder / "a", folder / "val"), {});
  auto const there = mpt::data_fingerprint(config_of(folder / "b", folder / "val"), {});
  REQUIRE(here.size() == 2);
  CHECK(here[0].starts_with("the data of train_loader, "));
  CHECK(here[1].starts_with("the data of eval_loader val, "));
  CHECK(sums(here) == sums(there));
  CHECK(sums(here)[0] != sums(here)[1]);
}

TEST_CASE("another first, middle or last sample, one more, or another order is another line") {
  test::temporary_folder folder;
  auto sum = [&, n = 0](std::vector<ids> const& of) mutable {
    auto const place = folder / std::to_string(n++);
    test::write_token_set(place, of);
    return sums(mpt::data_fingerprint(config_of(place, place), {})).front();
  };
  auto const same = sum(rows(20));
  CHECK(sum(rows(20)) == same);
  CHECK(sum(rows(21)) != same);
  for (std::size_t const at : {0, 10, 19}) {
    auto other = rows(20);
    other[at][2] = 8;
    CHECK(sum(other) != same);
  }
  auto turned = rows(20);
  std::swap(turned.front(), turned.back());
  CHECK(sum(turned) != same);
}

TEST_CASE("how a set is compressed is not compared") {
  test::temporary_folder folder;
  test::write_token_set(folder / "plain", rows(20));
  test::write_token_set(folder / "packed", rows(20), "zstd");
  auto const plain = folder / "plain", packed = folder / "packed";
  CHECK(sums(mpt::data_fingerprint(config_of(plain, plain), {})) ==
        sums(mpt::data_fingerprint(config_of(packed, packed), {})));
}

TEST_CASE("examples are compared by all their ids and labels") {
  auto const sum = [](mpt::finetune::example first) {
    mpt::example_set set;
    set.examples = {std::move(first), {{4, 5}, {5, -100}}};
    mpt::run_examples all;
    all.train = std::make_shared<mpt::example_set const>(set);
    return mpt::data_fingerprint({}, all);
  };
  auto const same = sum({{1, 2, 3}, {2, 3, -100}});
  REQUIRE(same.size() == 1);
  CHECK(same[0].starts_with("the examples of train_loader "));
  CHECK(sum({{1, 2, 3}, {2, 3, -100}}) == same);
  CHECK(sum({{1, 2, 4}, {2, 3, -100}}) != same);
  CHECK(sum({{1, 2, 3}, {-100, 3, -100}}) != same);
}

}  // namespace data_fingerprint_test
