#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/token_streams.hpp>
#include <parallel/support/files.hpp>

namespace token_streams_test {

using namespace mpt::data;

/// A set with one sample per shard; all ids of a sample are the number of the sample.
void write_shards(std::filesystem::path const& folder, std::int32_t count) {
  mds_writer writer(folder, {{{"tokens", "ndarray:int32"}}, "", {}, 1});
  auto const encoding = mds_encoding::parse("ndarray:int32");
  for (std::int32_t i = 0; i < count; ++i) {
    std::string bytes;
    std::vector<std::int32_t> const ids{i, i};
    encoding.encode_array(bytes, std::span<std::int32_t const>(ids), std::vector<std::uint64_t>{2});
    std::string_view const columns[] = {bytes};
    (void)writer.write(columns);
  }
  writer.finish();
}

/// The number of files that this process has open.
std::size_t open_files() {
  auto const descriptors = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(descriptors), end(descriptors))) - 1;
}

TEST_CASE("token streams: a set of more shards than the limit of open files is shuffled and read") {
  test::temporary_folder const folder;
  constexpr std::int32_t shards = 200;
  write_shards(folder.path(), shards);
  ::rlimit old_limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old_limit) == 0);
  auto const initial_count = open_files();
  auto limit = old_limit;
  limit.rlim_cur = initial_count + 60;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  token_streams const streams(std::make_shared<token_dataset const>(
      folder.path(), token_dataset_options{.sequence_length = 2}));
  auto const order = streams.order({.block_size = shards}, 0);
  streams.reserve_cache(order, 1 << 20);
  std::vector<std::int32_t> seen, ids(2);
  std::size_t max_count = 0;
  for (std::uint64_t position = 0; position < streams.size(); ++position) {
    streams.set(0).sample(order(position).sample, ids);
    seen.push_back(ids[0]);
    max_count = std::max(max_count, open_files());
  }
  CHECK(::setrlimit(RLIMIT_NOFILE, &old_limit) == 0);
  CHECK(max_count <= initial_count + 12);
  std::sort(seen.begin(), seen.end());
  for (std::int32_t i = 0; i < shards; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
}

}  // namespace token_streams_test
