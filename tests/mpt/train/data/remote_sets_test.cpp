#include <mpt/train/data/remote_sets.hpp>

#include <string>

#include <doctest/doctest.h>
#include <parallel/support/files.hpp>

namespace remote_sets_test {

constexpr char const* empty_index = R"({"version": 2, "shards": []})";

/// What caches were made with, for a server all of whose files are empty indexes.
struct fixture {
  test::temporary_folder folder{};
  std::vector<std::string> addresses{};
  std::vector<std::string> notes{};
  int attempts = 0;
  int unreachable_attempts = 0;
  int asked_for_store = 0;
  mpt::train_config config{};
  mpt::remote_sets sets{};

  void open() {
    mpt::data::shard_cache_options options;
    options.connect = [this](mpt::net::retry_policy const& policy, auto const&) {
      attempts = policy.attempts;
      unreachable_attempts = policy.unreachable_attempts;
      auto transport = [this](mpt::net::http_request const& request,
                              mpt::net::body_sink const& sink) {
        addresses.push_back(request.url);
        mpt::net::http_response out;
        out.status = 200;
        out.url = request.url;
        sink(out, empty_index);
        return out;
      };
      return mpt::net::network{mpt::net::http_client(transport)};
    };
    options.note = [this](std::string const& sentence) { notes.push_back(sentence); };
    sets = mpt::open_remote_sets(config.data, options, [this] {
      ++asked_for_store;
      mpt::net::object_store store;
      store.endpoint = "http://store";
      return store;
    });
  }
};

TEST_CASE("remote sets: loaders with an address get a cache, others none") {
  fixture run;
  run.config.data.train_loader.streams = {
      {.local = run.folder / "a", .remote = "https://h/c4"},
      {.local = run.folder / "b", .remote = run.folder / "mount"}};
  run.config.data.train_loader.streams[0].split = "train";
  run.config.data.train_loader.streams[0].download_retry = 1;
  run.config.data.eval_loaders.resize(2);
  run.config.data.eval_loaders[0].streams = {
      {.local = run.folder / "c", .remote = "s3://bucket/x"}};
  run.config.data.eval_loaders[1].streams = {{.local = run.folder / "d"}};
  run.open();
  CHECK(run.addresses == std::vector<std::string>{"https://h/c4/train/index.json",
                                                  "http://store/bucket/x/index.json"});
  CHECK(run.asked_for_store == 1);
  auto const& train = run.sets.train;
  REQUIRE(train != nullptr);
  CHECK(mpt::remote_set_of(train, run.folder / "a" / "train").cache == train);
  CHECK(mpt::remote_set_of(train, run.folder / "b").cache == nullptr);
  CHECK(run.sets.evaluation_cache(0) != nullptr);
  CHECK(run.sets.evaluation_cache(0) != train);
  CHECK(run.sets.evaluation_cache(1) == nullptr);
}

TEST_CASE("remote sets: a folder that has an index no run downloaded is a local set") {
  fixture run;
  test::write_all(run.folder / "index.json", empty_index);
  run.config.data.train_loader.streams = {{.local = run.folder.path(), .remote = "https://h/c4"}};
  run.open();
  CHECK(run.addresses.empty());
  CHECK(run.sets.train == nullptr);
}

TEST_CASE("remote sets: a folder that holds a part of its shards is no local set") {
  fixture run;
  test::write_all(
      run.folder / "index.json",
      R"({"version": 2, "shards": [{"version": 2, "format": "mds", "compression": null, "hashes": [],
       "size_limit": null, "column_names": ["x"], "column_encodings": ["str"], "column_sizes": [null],
       "samples": 1, "raw_data": {"basename": "shard.00000.mds", "bytes": 20, "hashes": {}},
       "zip_data": null}]})");
  run.config.data.train_loader.streams = {{.local = run.folder.path(), .remote = "https://h/c4"}};
  CHECK_THROWS_WITH_AS(run.open(), doctest::Contains("has 0 of the 1 shards"), parallel::error);
  test::write_all(run.folder / "shard.00000.mds", "twenty bytes in here");
  run.open();
  CHECK(run.notes.size() == 1);
}

TEST_CASE("remote sets: a cache without its address is refused") {
  fixture run;
  run.config.data.train_loader.streams = {{.local = run.folder / "a", .remote = "https://h/c4"}};
  run.open();
  run.config.data.train_loader.streams[0].remote.clear();
  CHECK_THROWS_WITH_AS(run.open(), doctest::Contains("shards of https://h/c4 come and go"),
                       parallel::error);
}

TEST_CASE("remote sets: a cache of a run before is one again, and its index is kept") {
  fixture run;
  run.config.data.train_loader.streams = {
      {.local = run.folder / "a", .remote = "https://h/c4", .download_retry = 3}};
  run.open();
  CHECK(run.attempts == 4);
  CHECK(run.unreachable_attempts == 4);
  run.sets = {};
  run.open();
  CHECK(run.sets.train != nullptr);
  CHECK(run.addresses.size() == 1);
}

}  // namespace remote_sets_test
