// What ranks may plan with is the same on all of them, and the least that any has.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <mpt/train/available_per_rank.hpp>
#include <parallel/comm/threads/run.hpp>

namespace available_per_rank_test {

/// One rank's memory, and how many ranks share it.
struct memory {
  std::size_t found;
  int sharing = 1;
};

/// What each rank is told.
std::vector<std::size_t> told(std::vector<memory> const& ranks) {
  std::vector<std::size_t> out(ranks.size());
  parallel::threads::run(static_cast<int>(ranks.size()), [&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    parallel::any_communicator any(std::move(comm));
    out[rank] = mpt::available_per_rank(ranks[rank].found, ranks[rank].sharing, any);
  });
  return out;
}

using all = std::vector<std::size_t>;

TEST_CASE("every rank plans with the least that any finds") {
  CHECK(told({{1000}}) == all{900});
  for (std::size_t least = 0; least < 4; ++least) {
    std::vector<memory> ranks{{1000}, {2000}, {3000}, {4000}};
    ranks[least].found = 500;
    CHECK(told(ranks) == all(4, 450));
  }
}

TEST_CASE("ranks that share a memory have equal parts of it") {
  CHECK(told({{6000, 3}, {6000, 3}, {6000, 3}}) == all(3, 1800));
  // one machine has less memory, and the other more ranks
  CHECK(told({{4000, 1}, {9000, 3}, {9000, 3}, {9000, 3}}) == all(4, 2700));
  CHECK(told({{2000, 1}, {9000, 3}, {9000, 3}, {9000, 3}}) == all(4, 1800));
}

TEST_CASE("where one rank does not know, nobody does") {
  CHECK(told({{1000}, {0}, {2000}}) == all(3, 0));
}

TEST_CASE("memory of many terabytes is counted") {
  std::size_t const large = std::size_t{1} << 50;
  CHECK(told({{large}, {large}}) == all(2, large / 10 * 9));
}

/// A GPU, of which a process may see no other.
struct gpu {
  std::string uuid;
  [[nodiscard]] std::string identity() const { return uuid; }
};

TEST_CASE("a GPU is shared by the ranks that have it, not by all of the machine") {
  auto const sharing = [](std::vector<gpu> const& of) {
    std::vector<int> out(of.size());
    parallel::threads::run(static_cast<int>(of.size()), [&](auto& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      parallel::any_communicator any(std::move(comm));
      out[rank] = mpt::ranks_on_device(of[rank], any);
    });
    return out;
  };
  CHECK(sharing({{"a"}, {"b"}, {"c"}}) == std::vector{1, 1, 1});
  CHECK(sharing({{"a"}, {"b"}, {"a"}}) == std::vector{2, 1, 2});
}

}  // namespace available_per_rank_test
