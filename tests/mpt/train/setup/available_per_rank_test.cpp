// The memory that ranks plan with is the same on all ranks: the least that any rank has.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <mpt/train/setup/available_per_rank.hpp>
#include <parallel/comm/threads/run.hpp>

namespace available_per_rank_test {

/// One rank's memory, and the number of ranks that share it.
struct memory {
  std::size_t found;
  int sharing = 1;
};

/// The memory that each rank plans with.
std::vector<std::size_t> planned_memory(std::vector<memory> const& ranks) {
  std::vector<std::size_t> out(ranks.size());
  parallel::threads::run(static_cast<int>(ranks.size()), [&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    parallel::any_communicator any(std::move(comm));
    out[rank] = mpt::available_per_rank(ranks[rank].found, ranks[rank].sharing, any);
  });
  return out;
}

using sizes = std::vector<std::size_t>;

TEST_CASE("available memory: every rank plans with the least that any rank finds") {
  CHECK(planned_memory({{1000}}) == sizes{900});
  for (std::size_t smallest = 0; smallest < 4; ++smallest) {
    std::vector<memory> ranks{{1000}, {2000}, {3000}, {4000}};
    ranks[smallest].found = 500;
    CHECK(planned_memory(ranks) == sizes(4, 450));
  }
}

TEST_CASE("available memory: ranks that share memory have equal parts of it") {
  CHECK(planned_memory({{6000, 3}, {6000, 3}, {6000, 3}}) == sizes(3, 1800));
  // one machine has less memory, and the other more ranks
  CHECK(planned_memory({{4000, 1}, {9000, 3}, {9000, 3}, {9000, 3}}) == sizes(4, 2700));
  CHECK(planned_memory({{2000, 1}, {9000, 3}, {9000, 3}, {9000, 3}}) == sizes(4, 1800));
}

TEST_CASE("available memory: where it is unknown on one rank, it is unknown on all") {
  CHECK(planned_memory({{1000}, {0}, {2000}}) == sizes(3, 0));
}

TEST_CASE("available memory: many terabytes are counted without overflow") {
  std::size_t const large = std::size_t{1} << 50;
  CHECK(planned_memory({{large}, {large}}) == sizes(2, large / 10 * 9));
}

/// A GPU, known by its identity.
struct gpu {
  std::string uuid;
  [[nodiscard]] std::string identity() const { return uuid; }
};

TEST_CASE("ranks on a device: only ranks on the same GPU share it, not all of the machine") {
  auto const sharing = [](std::vector<gpu> const& devices) {
    std::vector<int> out(devices.size());
    parallel::threads::run(static_cast<int>(devices.size()), [&](auto& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      parallel::any_communicator any(std::move(comm));
      out[rank] = mpt::ranks_on_device(devices[rank], any);
    });
    return out;
  };
  CHECK(sharing({{"a"}, {"b"}, {"c"}}) == std::vector{1, 1, 1});
  CHECK(sharing({{"a"}, {"b"}, {"a"}}) == std::vector{2, 1, 2});
}

}  // namespace available_per_rank_test
