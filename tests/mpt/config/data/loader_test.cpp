// Tests of loaders: defaults, folders, lists of evaluation sets, and what is refused.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/data/loader.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>

#include "mpt/config/refused_settings.hpp"

namespace loader_test {

inline mpt::loader_config read(std::string const& text, mpt::config_report& report) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  return mpt::read_loader({root, "train_loader", report}, {.max_seq_len = 128, .drop_last = true});
}

inline std::string problem(std::string const& text) {
  mpt::config_report report;
  return test::message_of([&] { static_cast<void>(read(text, report)); });
}

TEST_CASE("loader: has streaming's defaults and the run's sequence length") {
  mpt::config_report report;
  auto const loader = read("dataset: {local: ./c4}", report);
  CHECK(loader.shuffle_seed == 9176);
  CHECK(!loader.shuffle);
  CHECK(loader.max_seq_len == 128);
  CHECK(loader.streams == std::vector<mpt::stream_config>{{.local = "./c4"}});
  auto const full = read(
      "{name: text, drop_last: false, num_workers: 8, dataset: {local: ./c4, remote: ./c4, split: "
      "train, shuffle: true, shuffle_seed: 17, shuffle_block_size: 4_000_000, max_seq_len: 64, "
      "shuffle_algo: py1s, num_canonical_nodes: 8, token_encoding_type: uint16}}",
      report);
  CHECK(full.streams[0].split == "train");
  CHECK(full.reach == mpt::shuffle_reach::shard);
  CHECK(full.shuffle_block_size == 4'000'000);
  CHECK(full.token_encoding_type == "uint16");
  CHECK(!full.eos_token_id);
  CHECK(read("dataset: {local: ./c4, eos_token_id: 0}", report).eos_token_id == 0);
  CHECK(read("dataset: {local: ./c4, bos_token_id: 50}", report).bos_token_id == 50);
  CHECK(mpt::describe_ignored(report) ==
        "accepted and without effect here: train_loader.drop_last (training leaves out an epoch's "
        "last "
        "batch where it is not full); train_loader.num_workers (batches are read ahead without "
        "worker processes); train_loader.dataset.shuffle_block_size (belongs to py1b, py1br and "
        "py1e); train_loader.dataset.num_canonical_nodes (the order is our own and the "
        "same for "
        "any number of ranks)");
}

TEST_CASE("loader: streams have folders and weights, and a mounted remote is a folder") {
  mpt::config_report report;
  auto const loader = read(
      "dataset: {split: train, epoch_size: 1000, streams: {c4: {local: a, proportion: 3}, code: "
      "{local: b, remote: /net/b, split: val, proportion: 0.5}, books: {remote: /net/c, "
      "proportion: 1}}}",
      report);
  REQUIRE(loader.streams.size() == 3);
  CHECK(loader.streams[0] ==
        mpt::stream_config{
            .name = "c4", .local = "a", .split = "train", .weight = {.proportion = 3.0}});
  CHECK(loader.streams[1].remote == "/net/b");
  CHECK(loader.streams[1].split == "val");
  CHECK(loader.streams[2].local == "/net/c");
  CHECK(loader.epoch_size == 1000);
  auto const absolute =
      read("dataset: {streams: {a: {local: a, repeat: 2}, b: {local: b, choose: 7}}}", report);
  CHECK(absolute.streams[0].weight.repeat == 2.0);
  CHECK(absolute.streams[1].weight.choose == 7);
}

TEST_CASE("loader: a blank mlm_probability is accepted") {
  mpt::config_report report;
  auto const loader = read("dataset: {local: a, mlm_probability: null}", report);
  CHECK(loader == read("dataset: {local: a}", report));
  CHECK(report.ignored.empty());
}

TEST_CASE("loader: a remote set's downloads, whose settings the loader gives its streams") {
  mpt::config_report report;
  auto const loader = read(
      "{dataset: {cache_limit: 10gb, predownload: 64, download_retry: 7, split: train, streams: "
      "{a: "
      "{local: a, remote: 's3://b/a'}, b: {local: b, remote: 'https://h/b', download_retry: 1, "
      "download_timeout: 9.5}, c: {local: c}}}}",
      report);
  CHECK(loader.cache_limit == 10'000'000'000U);
  CHECK(loader.predownload == 64);
  REQUIRE(loader.streams.size() == 3);
  CHECK(loader.streams[0].remote == "s3://b/a");
  CHECK(loader.streams[0].download_retry == 7);
  CHECK(loader.streams[0].split == "train");
  CHECK(loader.streams[1].download_retry == 1);
  CHECK(loader.streams[1].download_timeout == 9.5);
  CHECK(loader.streams[2] == mpt::stream_config{.name = "c", .local = "c", .split = "train"});
}

TEST_CASE("is_remote: distinguishes addresses from paths") {
  for (std::string const path : {"s3://b/x", "hf://m", "https://a", "dbfs://x"})
    CHECK(mpt::is_remote(path));
  for (std::string const path : {"./x", "/a/b", "a:b", "x", "", "://", "a b://c", "C:/x"})
    CHECK(!mpt::is_remote(path));
}

TEST_CASE("loader: each invalid setting gives one message") {
  for (auto const& [text, message] : test::refused_settings("train_loader"))
    CHECK(problem(text) == message);
}

TEST_CASE("eval_loader: one set, or a list with different labels") {
  auto const read_all = [](std::string const& text) {
    auto const root = mpt::parse_yaml(text, "f.yaml");
    mpt::config_report report;
    mpt::config_reader reader(root, "", report);
    return mpt::read_eval_loaders(reader, {.max_seq_len = 64, .drop_last = false});
  };
  CHECK(read_all("eval_loader:").empty());
  CHECK(read_all("eval_loader: {dataset: {local: a}}").size() == 1);
  auto const two = read_all(
      "eval_loader: [{label: c4, dataset: {local: a}}, {label: books, dataset: {local: b}}]");
  REQUIRE(two.size() == 2);
  CHECK(two[1].label == "books");
  CHECK_THROWS_WITH_AS(
      read_all("eval_loader: [{label: c4, dataset: {local: a}}, {dataset: {local: b}}]"),
      "f.yaml:1:49: eval_loader.1.label: missing; each loader of a list needs one",
      parallel::error);
  CHECK_THROWS_WITH_AS(
      read_all("eval_loader: [{label: c, dataset: {local: a}}, {label: c, dataset: {local: b}}]"),
      "f.yaml:1:48: eval_loader.1.label: 'c' is also the label of eval_loader.0", parallel::error);
}

}  // namespace loader_test
