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

#include <mpt/data/mds_writer.hpp>
#include <mpt/data/token_streams.hpp>
#include <parallel/support/files.hpp>

namespace token_streams_test {

using namespace mpt::data;

/// A set of as many shards as samples, of one token each, which is the sample's number.
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

/// Files that this process has open.
std::size_t open_files() {
  auto const all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all))) - 1;
}

TEST_CASE("a set of more shards than files may be open is shuffled and read") {
  test::temporary_folder const folder;
  constexpr std::int32_t shards = 200;
  write_shards(folder.path(), shards);
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto const few = open_files();
  auto limit = before;
  limit.rlim_cur = few + 60;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  token_streams const streams(std::make_shared<token_dataset const>(
      folder.path(), token_dataset_options{.sequence_length = 2}));
  auto const order = streams.order({.block_size = shards}, 0);
  streams.reserve_cache(order, 1 << 20);
  std::vector<std::int32_t> seen, ids(2);
  std::size_t most = 0;
  for (std::uint64_t at = 0; at < streams.size(); ++at) {
    streams.set(0).sample(order(at).sample, ids);
    seen.push_back(ids[0]);
    most = std::max(most, open_files());
  }
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(most <= few + 12);
  std::sort(seen.begin(), seen.end());
  for (std::int32_t i = 0; i < shards; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
}

}  // namespace token_streams_test
