#include <mpt/data/shard_cache.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/batch_loader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/train/data/training_data.hpp>

#include "scratch.hpp"

namespace shard_cache_test {

namespace fs = std::filesystem;
using namespace mpt::data;
using namespace std::chrono_literals;
using data_test::contains;
using data_test::message_of;

/// Samples of six ids, of which two are in a shard. Sample i begins with id 10 i.
void write_set(fs::path const& folder, int samples, std::string const& compression = {},
               std::vector<std::string> hashes = {"sha1", "xxh3_64"}) {
  mds_writer writer(folder, {{{"tokens", "ndarray:int32"}}, compression, std::move(hashes), 300});
  auto const encoding = mds_encoding::parse("ndarray:int32");
  for (int i = 0; i < samples; ++i) {
    std::vector<std::int32_t> ids(6);
    std::iota(ids.begin(), ids.end(), i * 10);
    std::string const value =
        std::string("\x04\x06", 2) + std::string(reinterpret_cast<char const*>(ids.data()), 24);
    std::vector<std::string_view> const values{value};
    static_cast<void>(writer.write(values));
  }
  writer.finish();
}

/// A web server whose files are those of a folder, and what it was asked for.
struct server {
  fs::path root;
  std::mutex mutex{};
  std::map<std::string, int> requests{};
  std::map<std::string, std::string> bodies{};  ///< in place of a file, once
  std::chrono::milliseconds delay{0};

  mpt::net::network connect() {
    auto transport = [this](mpt::net::http_request const& request,
                            mpt::net::body_sink const& sink) {
      auto const path = request.url.substr(std::string("http://h").size() + 1);
      mpt::net::http_response out;
      out.url = request.url;
      std::string body;
      {
        std::scoped_lock const lock(mutex);
        ++requests[path];
        if (auto replaced = bodies.extract(path)) body = replaced.mapped();
      }
      std::this_thread::sleep_for(delay);
      out.status = fs::exists(root / path) ? 200 : 404;
      if (out.status == 404) return out;
      if (body.empty()) body = data_test::get_file(root / path);
      out.headers = {{"content-length", std::to_string(body.size())}};
      sink(out, body);
      return out;
    };
    return {mpt::net::http_client(transport, {}, {}, [](auto) {})};
  }

  int count(std::string const& path) {
    std::scoped_lock const lock(mutex);
    return requests[path];
  }
};

std::string shard_name(std::size_t shard) {
  return parallel::concat("shard.", shard < 10 ? "0000" : "000", shard, ".mds");
}

struct fixture {
  data_test::scratch_folder folder{};
  server source{folder.path() / "remote"};

  std::unique_ptr<shard_cache> open(std::optional<std::uint64_t> limit = {},
                                    fs::path const& name = "local") {
    shard_cache_options options;
    options.limit = limit;
    options.connect = [this](auto const&, auto const&) { return source.connect(); };
    options.room_timeout = 1s;
    std::vector<remote_set> sets;
    sets.push_back({mpt::net::remote_folder("http://h", {}), folder.path() / name});
    return std::make_unique<shard_cache>(std::move(sets), std::move(options));
  }

  [[nodiscard]] bool has(std::size_t shard, fs::path const& name = "local") const {
    return fs::exists(folder.path() / name / shard_name(shard));
  }

  /// Bytes of a shard; all are equal.
  [[nodiscard]] std::uint64_t shard_bytes() const {
    return fs::file_size(folder.path() / "remote" / shard_name(0));
  }
};

TEST_CASE("shard cache: a shard is downloaded when it is held, once") {
  fixture files;
  write_set(files.source.root, 8);
  auto const cache = files.open();
  CHECK(cache->find(files.folder.path() / "local") == 0);
  CHECK(!cache->find(files.folder.path() / "other"));
  CHECK(!files.has(2));
  {
    auto const lease = cache->hold({0, 2});
    CHECK(data_test::get_file(files.folder.path() / "local" / shard_name(2)) ==
          data_test::get_file(files.source.root / shard_name(2)));
  }
  static_cast<void>(cache->hold({0, 2}));
  static_cast<void>(files.open()->hold({0, 2}));
  CHECK(files.source.count(shard_name(2)) == 1);
  CHECK(files.source.count("index.json") == 1);
}

TEST_CASE("shard cache: expected shards are downloaded ahead") {
  fixture files;
  write_set(files.source.root, 8);
  auto const cache = files.open();
  cache->expect({{0, 3}, {0, 1}});
  for (int i = 0; i < 2000 && !(files.has(3) && files.has(1)); ++i)
    std::this_thread::sleep_for(5ms);
  CHECK(files.has(3));
  CHECK(files.has(1));
  CHECK(!files.has(0));
}

TEST_CASE(
    "shard cache: the shard whose reading began longest ago is removed first, and none that "
    "is read or expected") {
  fixture files;
  write_set(files.source.root, 20);
  auto const cache = files.open(3 * files.shard_bytes());
  auto const first = cache->hold({0, 0});
  for (std::size_t const shard : {1U, 2U}) static_cast<void>(cache->hold({0, shard}));
  std::this_thread::sleep_for(20ms);
  static_cast<void>(cache->hold({0, 1}));
  static_cast<void>(cache->hold({0, 3}));
  CHECK(files.has(0));  // is read
  CHECK(files.has(1));
  CHECK(!files.has(2));
  CHECK(files.has(3));
  cache->expect({{0, 1}});
  static_cast<void>(cache->hold({0, 4}));
  CHECK(files.has(0));
  CHECK(files.has(1));  // is expected, though shard 3 was read later
  CHECK(!files.has(3));
  CHECK(files.has(4));
}

TEST_CASE("shard cache: a shard that is needed now replaces the one that is expected last") {
  fixture files;
  write_set(files.source.root, 20);
  auto const cache = files.open(2 * files.shard_bytes());
  static_cast<void>(cache->hold({0, 5}));
  static_cast<void>(cache->hold({0, 6}));
  cache->expect({{0, 5}, {0, 6}, {0, 7}});
  auto const needed = cache->hold({0, 8});  // once it is free, shard 7 may be fetched in its place
  CHECK(files.has(5));
  CHECK(!files.has(6));
  CHECK(files.has(8));
}

TEST_CASE("shard cache: a full cache of shards that are read ends in a message") {
  fixture files;
  write_set(files.source.root, 20);
  auto const cache = files.open(2 * files.shard_bytes());
  auto const first = cache->hold({0, 0});
  auto const second = cache->hold({0, 1});
  CHECK(contains(message_of([&] {
                   static_cast<void>(cache->hold({0, 2}));
                 }),
                 "bytes are full of shards that are being read"));
}

TEST_CASE("shard cache: a limit that is too small is refused with one that would do") {
  fixture files;
  write_set(files.source.root, 20);
  auto const bytes = files.shard_bytes();
  CHECK(contains(message_of([&] { static_cast<void>(files.open(bytes - 1)); }),
                 parallel::concat("takes, ", bytes)));
  auto const cache = files.open(3 * bytes);
  std::vector<std::size_t> counts{3};
  cache->require_room(counts, 100, "x");
  counts[0] = 4;
  cache->require_room(counts, 3, "x");
  CHECK(contains(message_of([&] { cache->require_room(counts, 100, "the samples"); }),
                 parallel::concat("the samples are read from up to 4 shards at once, which take ",
                                  4 * bytes, " bytes")));
}

TEST_CASE("shard cache: other bytes than the index says are fetched again, and then refused") {
  fixture files;
  write_set(files.source.root, 8);
  auto const cache = files.open();
  auto wrong = data_test::get_file(files.source.root / shard_name(1));
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  files.source.bodies[shard_name(1)] = wrong;
  static_cast<void>(cache->hold({0, 1}));
  CHECK(files.source.count(shard_name(1)) == 2);
  data_test::put_file(files.source.root / shard_name(2), wrong);
  CHECK(contains(message_of([&] {
                   static_cast<void>(cache->hold({0, 2}));
                 }),
                 "http://h/shard.00002.mds: sha1 is "));
  auto const advice = parallel::concat("remove ", (files.folder.path() / "local").native());
  CHECK(contains(message_of([&] { static_cast<void>(cache->hold({0, 2})); }), advice));
  CHECK(!files.has(2));
  data_test::put_file(files.source.root / shard_name(3), wrong + "more");
  CHECK(contains(message_of([&] { static_cast<void>(cache->hold({0, 3})); }), "it should have"));
  CHECK(contains(message_of([&] { static_cast<void>(cache->hold({0, 3})); }), advice));
  fs::remove(files.source.root / shard_name(0));
  CHECK(contains(message_of([&] {
                   static_cast<void>(cache->hold({0, 0}));
                 }),
                 "http://h/shard.00000.mds: the server answers 404 Not Found"));
}

TEST_CASE("shard cache: a damaged file that a run before left is fetched again") {
  fixture files;
  write_set(files.source.root, 8);
  static_cast<void>(files.open()->hold({0, 1}));
  auto const file = files.folder.path() / "local" / shard_name(1);
  auto content = data_test::get_file(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  data_test::put_file(file, content);
  static_cast<void>(files.open()->hold({0, 1}));
  CHECK(data_test::get_file(file) == data_test::get_file(files.source.root / shard_name(1)));
}

TEST_CASE("shard cache: a bit that flips on the disk after a shard was checked is noticed") {
  for (char const* const compression : {"", "zstd"}) {
    CAPTURE(compression);
    fixture files;
    write_set(files.source.root, 8, compression);
    auto const cache = files.open();
    static_cast<void>(cache->hold({0, 2}));
    auto const file = files.folder.path() / "local" / shard_name(2);
    auto const sound = data_test::get_file(file);
    auto flipped = sound;
    flipped.back() ^= 1;
    data_test::put_file(file, flipped);
    static_cast<void>(cache->hold({0, 2}));
    CHECK(data_test::get_file(file) == sound);
  }
}

TEST_CASE("shard cache: nothing is written through links in the folder") {
  fixture files;
  write_set(files.source.root, 8);
  auto const outside = files.folder.path() / "outside";
  auto const local = files.folder.path() / "local";
  fs::create_directories(outside);
  fs::create_directories(local);
  fs::create_directory_symlink(outside, local / ".streaming");
  CHECK(contains(message_of([&] { (void)files.open(); }), ".streaming: is a link to "));
  fs::remove(local / ".streaming");
  fs::create_directories(local / ".streaming");
  fs::create_symlink(outside / "locks", local / ".streaming/locks");
  CHECK(contains(message_of([&] { (void)files.open(); }), "locks"));
  fs::remove(local / ".streaming/locks");
  auto const cache = files.open();
  data_test::put_file(outside / "precious", "");
  fs::create_symlink(outside / "precious", local / ".streaming/2.part.incomplete");
  CHECK(contains(message_of([&] { (void)cache->hold({0, 2}); }), "2.part.incomplete: is a link"));
  CHECK(data_test::get_file(outside / "precious").empty());
  fs::create_symlink(outside / "precious", local / shard_name(3));
  static_cast<void>(cache->hold({0, 3}));  // the link's name is the shard's
  CHECK(!fs::is_symlink(local / shard_name(3)));
  CHECK(std::distance(fs::directory_iterator(outside), {}) == 1);
  CHECK(data_test::get_file(outside / "precious").empty());
}

TEST_CASE("shard cache: compressed shards are kept decompressed, and count with both") {
  fixture files;
  write_set(files.source.root, 8, "zstd", {"sha1", "xxh64"});
  auto const index =
      parse_mds_index(data_test::get_file(files.source.root / "index.json"), "index.json");
  std::uint64_t cost = 0;
  for (auto const& shard : index) cost = std::max(cost, shard.raw.bytes + shard.zip->bytes);
  CHECK(contains(message_of([&] { static_cast<void>(files.open(cost - 1)); }),
                 parallel::concat("takes, ", cost)));
  auto const cache = files.open(cost);
  static_cast<void>(cache->hold({0, 1}));
  CHECK(fs::file_size(files.folder.path() / "local" / shard_name(1)) == index[1].raw.bytes);
  CHECK(!fs::exists(files.folder.path() / "local" / (shard_name(1) + ".zstd")));
  CHECK(files.source.count(shard_name(1) + ".zstd") == 1);
  CHECK(files.source.count(shard_name(1)) == 0);
}

TEST_CASE("shard cache: a folder is of one address, and of one stream") {
  fixture files;
  write_set(files.source.root, 8);
  static_cast<void>(files.open());
  auto const open = [&](std::vector<std::string> const& addresses) {
    shard_cache_options options;
    options.connect = [&](auto const&, auto const&) { return files.source.connect(); };
    std::vector<remote_set> sets;
    for (auto const& address : addresses)
      sets.push_back({mpt::net::remote_folder(address, {}), files.folder.path() / "local"});
    shard_cache const cache(std::move(sets), std::move(options));
  };
  CHECK(contains(message_of([&] { open({"http://other"}); }), "holds shards of http://h"));
  CHECK(contains(message_of([&] { open({"http://h", "http://h"}); }), "the folder of two streams"));
}

TEST_CASE("shard cache: a folder that holds other files is left as it is") {
  fixture files;
  write_set(files.source.root, 8);
  auto const local = files.folder.path() / "local";
  fs::create_directories(local);
  data_test::put_file(local / "notes", "text");
  CHECK(contains(message_of([&] { static_cast<void>(files.open()); }), "holds files already"));
  CHECK(!fs::exists(local / ".streaming"));
  fs::remove(local / "notes");
  static_cast<void>(files.open());
}

TEST_CASE("shard cache: an index that names hidden files is refused") {
  fixture files;
  write_set(files.source.root, 8);
  auto const index = files.source.root / "index.json";
  auto const original = data_test::get_file(index);
  for (std::string const name : {".bashrc", "a/.b"}) {
    auto text = original;
    text.replace(text.find(shard_name(1)), shard_name(1).size(), name);
    data_test::put_file(index, text);
    CHECK(contains(message_of([&] { static_cast<void>(files.open()); }), "begins with '.'"));
  }
  CHECK(!fs::exists(files.folder.path() / "local" / "index.json"));
}

TEST_CASE("shard cache: a wait for a shard ends when a stop is requested") {
  fixture files;
  write_set(files.source.root, 8);
  auto const cache = files.open(2 * files.shard_bytes());
  auto const first = cache->hold({0, 0});
  auto const second = cache->hold({0, 1});
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(static_cast<void>(cache->hold({0, 2}, stop.get_token())), shard_wait_stopped);
}

/// The samples' first ids of each batch of a loader.
std::vector<std::vector<std::int32_t>> batches_of(token_streams const& streams, int count,
                                                  loader_position start = {},
                                                  std::uint64_t predownload = 0) {
  batch_loader loader(streams, {.global_batch_size = 4,
                                .first_row = 0,
                                .last_row = 4,
                                .order = {.block_size = 8},
                                .start = start,
                                .predownload = predownload});
  std::vector<std::vector<std::int32_t>> out;
  for (int i = 0; i < count; ++i) out.push_back(loader.next()->ids);
  return out;
}

TEST_CASE("shard cache: a loader that is destroyed waits for no shard") {
  fixture files;
  write_set(files.source.root, 80);
  std::shared_ptr<shard_cache> const cache = files.open();
  std::vector<byte_lock> downloads;  // of another process, which is stalled
  for (std::size_t shard = 0; shard < 40; ++shard) {
    downloads.emplace_back(files.folder.path() / "local/.streaming/locks", shard);
    REQUIRE(downloads.back().try_exclusive());
  }
  auto const remote = std::make_shared<token_dataset const>(
      files.folder.path() / "local",
      token_dataset_options{.sequence_length = 6, .remote = {cache, 0}});
  CHECK(batches_of(remote, 0).empty());
}

TEST_CASE("shard cache: a limit of one shard is enough for a reader of one sample at a time") {
  fixture files;
  write_set(files.source.root, 8);
  std::shared_ptr<shard_cache> const cache = files.open(files.shard_bytes());
  mds_reader const reader(files.folder.path() / "local", {.remote = {cache, 0}});
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto const sample = reader.sample(i);
    CHECK(sample.array("tokens").size() == 6);
  }
}

/// The bytes of the shards in a cache. Nothing is removed nor begun meanwhile; a part that becomes
/// a shard is counted once.
std::uint64_t bytes_of(fs::path const& folder) {
  byte_lock room(folder / ".streaming/locks", (std::uint64_t{1} << 40) + 1);
  while (!room.try_shared()) std::this_thread::yield();
  std::map<int, std::uint64_t> bytes;
  std::error_code moved;
  for (auto const& entry : fs::recursive_directory_iterator(folder)) {
    auto const name = entry.path().filename().native();
    bool const is_shard = name.starts_with("shard.");
    if (!is_shard && name.find(".part") == std::string::npos) continue;
    auto const size = fs::file_size(entry.path(), moved);
    auto& counted = bytes[std::stoi(is_shard ? name.substr(6) : name)];
    if (!moved) counted = std::max<std::uint64_t>(counted, size);
  }
  std::uint64_t total = 0;
  for (auto const& [shard, size] : bytes) total += size;
  return total;
}

TEST_CASE(
    "shard cache: caches of one folder, as processes have, download a shard once and keep "
    "the limit together") {
  fixture files;
  write_set(files.source.root, 40);
  files.source.delay = 1ms;
  auto const limit = 8 * files.shard_bytes();
  std::atomic<bool> has_ended = false;
  std::atomic<std::uint64_t> largest = 0;
  static_cast<void>(files.open(limit));
  std::jthread const watcher([&] {
    while (!has_ended) largest = std::max<std::uint64_t>(largest, bytes_of(files.folder / "local"));
  });
  {
    std::vector<std::unique_ptr<shard_cache>> caches;
    for (int rank = 0; rank < 4; ++rank) caches.push_back(files.open(limit));
    std::vector<std::jthread> ranks;
    for (auto& cache : caches)
      ranks.emplace_back([&cache] {
        for (std::size_t shard = 0; shard < 20; ++shard) {
          cache->expect({{0, shard}, {0, std::min<std::size_t>(shard + 1, 19)}});
          auto const lease = cache->hold({0, shard});
        }
      });
    ranks.clear();
  }
  has_ended = true;
  int total = 0;
  for (std::size_t shard = 0; shard < 20; ++shard) {
    CHECK(files.source.count(shard_name(shard)) >= 1);
    total += files.source.count(shard_name(shard));
  }
  CHECK(total < 40);  // not 80: a rank that lags behind by eight shards fetches one again
  CHECK(largest <= limit);
  CHECK(largest > 0);
}

TEST_CASE("shard cache: batches of a remote set equal those of the local one, from any position") {
  fixture files;
  write_set(files.source.root, 80);
  token_dataset_options const options{.sequence_length = 6};
  auto const local = std::make_shared<token_dataset const>(files.source.root, options);
  auto const expected = batches_of(local, 50);
  std::shared_ptr<shard_cache> const cache = files.open(32 * files.shard_bytes());
  auto remote_options = options;
  remote_options.remote = {cache, 0};
  auto const remote =
      std::make_shared<token_dataset const>(files.folder.path() / "local", remote_options);
  CHECK(batches_of(remote, 50) == expected);
  constexpr auto endless = std::uint64_t{1} << 40;
  auto const rest = batches_of(remote, 20, {1, 40}, endless);
  CHECK(std::equal(rest.begin(), rest.end(), expected.begin() + 30));
  int downloads = 0;
  for (std::size_t shard = 0; shard < 40; ++shard)
    downloads += files.source.count(shard_name(shard));
  CHECK(downloads > 40);  // 32 fit
}

TEST_CASE("shard cache: a loader refuses a limit below what its batches in flight are read from") {
  fixture files;
  write_set(files.source.root, 80);
  std::shared_ptr<shard_cache> const cache = files.open(10 * files.shard_bytes());
  auto const remote = std::make_shared<token_dataset const>(
      files.folder.path() / "local",
      token_dataset_options{.sequence_length = 6, .remote = {cache, 0}});
  CHECK(contains(message_of([&] { static_cast<void>(batches_of(remote, 1)); }),
                 "the 16 samples of the batches in flight are read from up to 16 shards at once"));
}

TEST_CASE("shard cache: an evaluation, in order, needs consecutive shards") {
  fixture files;
  write_set(files.source.root, 80);
  auto const ids_of = [](token_streams const& streams) {
    batch_loader loader(streams,
                        {.mode = loader_mode::evaluate, .global_batch_size = 4, .last_row = 4});
    std::vector<std::int32_t> out;
    while (auto const batch = loader.next())
      out.insert(out.end(), batch->ids.begin(), batch->ids.end());
    return out;
  };
  token_dataset_options const options{.sequence_length = 6};
  auto const expected = ids_of(std::make_shared<token_dataset const>(files.source.root, options));
  auto const remote = [&](std::uint64_t shards, fs::path const& name) {
    std::shared_ptr<shard_cache> const cache = files.open(shards * files.shard_bytes(), name);
    auto remote_options = options;
    remote_options.remote = {cache, 0};
    return std::make_shared<token_dataset const>(files.folder.path() / name, remote_options);
  };
  CHECK(ids_of(remote(9, "local")) == expected);
  CHECK(contains(message_of([&] { static_cast<void>(ids_of(remote(8, "other"))); }),
                 "from up to 9 shards at once"));
  CHECK(
      contains(message_of([&] { mpt::evaluation_batches::require_room(remote(8, "third"), 2, 2); }),
               "from up to 9 shards at once"));
  mpt::evaluation_batches::require_room(remote(9, "fourth"), 2, 2);
}

}  // namespace shard_cache_test
