// A slow rank is found by the time that ranks wait in exchanges.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mpt/train/report/slow_rank.hpp>
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>

namespace slow_rank_test {
namespace {

using mpt::find_slow_rank;
using seconds = std::vector<double>;
using works = std::vector<int>;

TEST_CASE("slow rank: one that hardly waits while half of its peers wait a fifth of the time") {
  CHECK(find_slow_rank(seconds{4, 1, 5, 4}, works{0, 0, 0, 0}, 10) == mpt::slow_rank{1, 3});
  CHECK_FALSE(find_slow_rank(seconds{4, 1, 5, 4}, works{0, 0, 0, 0}, 15));
  CHECK_FALSE(find_slow_rank(seconds{1, 1, 9, 1}, works{0, 0, 0, 0}, 10));  // one waits, not half
  CHECK(find_slow_rank(seconds{5, 1}, works{0, 0}, 10) == mpt::slow_rank{1, 4});
  CHECK(find_slow_rank(seconds{5, 1, 6, 0}, works{0, 0, 0, 0}, 10)->rank == 3);
}

TEST_CASE("slow rank: only ranks with the same work are compared") {
  CHECK_FALSE(find_slow_rank(seconds{9, 9, 1, 1}, works{0, 0, 1, 1}, 10));  // a longer stage
  CHECK(find_slow_rank(seconds{9, 5, 1, 1}, works{0, 0, 1, 1}, 10) == mpt::slow_rank{1, 4});
  CHECK_FALSE(find_slow_rank(seconds{9, 1}, works{0, 1}, 10));  // no rank to compare with
  CHECK_FALSE(find_slow_rank(seconds{1}, works{0}, 10));
}

TEST_CASE("slow rank watch: a rank that computes longer is named once, on every rank") {
  constexpr int ranks = 3;
  std::vector<std::vector<std::string>> texts_by_rank(ranks);
  parallel::threads::run(ranks, [&](parallel::threads::communicator& world) {
    int const rank = world.rank();
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    parallel::any_communicator comm(parallel::recorded(std::move(world), recorder));
    parallel::host::stream s;
    mpt::slow_rank_watch watch(
        [&] { return std::chrono::duration<double>(recorder->time_in_calls()).count(); }, 0,
        rank == 2 ? "far" : "near");
    int calls = 0;
    auto const load = [&] {
      ++calls;
      return mpt::named_numbers{{"cpu_share", rank + 0.5}, {"rank", rank}};
    };
    for (int batch = 0; batch < 2 * mpt::slow_rank_watch::batches; ++batch) {
      watch.time_batch([&] {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(42));
        comm.barrier(s).wait();
        return 0;
      });
      auto const found = watch.look(comm, s, 100.0 + rank + batch / 1000.0, load);
      if (!found.note.empty()) texts_by_rank[static_cast<std::size_t>(rank)].push_back(found.note);
      bool const is_due = (batch + 1) % mpt::slow_rank_watch::batches == 0;
      CHECK(found.device_bytes ==
            (is_due ? seconds{100 + batch / 1000.0, 101 + batch / 1000.0, 102 + batch / 1000.0}
                    : seconds()));
      CHECK(found.loads == (is_due ? mpt::named_numbers{{"node0/cpu_share", 0.5},
                                                        {"node0/rank", 0},
                                                        {"node1/cpu_share", 2.5},
                                                        {"node1/rank", 2}}
                                   : mpt::named_numbers()));
    }
    CHECK(calls == (rank == 1 ? 1 : 2));  // once, before the ranks knew their machines
  });
  for (auto const& texts : texts_by_rank) {
    REQUIRE(texts.size() == 1);
    CHECK(texts == texts_by_rank.front());
    CHECK(texts[0].starts_with("rank 1 on "));
    CHECK(texts[0].find(" is slow: the last 50 batches took ") != std::string::npos);
  }
}

TEST_CASE("slow rank watch: without wait times nothing is reported or exchanged") {
  parallel::threads::run(2, [](parallel::threads::communicator& world) {
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    parallel::any_communicator comm(parallel::recorded(std::move(world), recorder));
    parallel::host::stream s;
    mpt::slow_rank_watch watch({}, 0);
    for (int batch = 0; batch < 60; ++batch) {
      CHECK(watch.time_batch([&] { return batch; }) == batch);
      auto const found = watch.look(comm, s, 1);
      CHECK(found.note.empty());
      CHECK(found.device_bytes.empty());
    }
    CHECK(recorder->calls().empty());
  });
}

TEST_CASE("slow rank watch: a rank alone tells its memory every 50 batches") {
  parallel::threads::run(1, [](parallel::threads::communicator& world) {
    parallel::any_communicator comm(std::move(world));
    parallel::host::stream s;
    mpt::slow_rank_watch watch({}, 0);
    for (int batch = 1; batch <= 120; ++batch) {
      CHECK(watch.time_batch([&] { return batch; }) == batch);
      auto const found = watch.look(comm, s, batch, [] {
        return mpt::named_numbers{{"cpu_share", 0.5}};
      });
      CHECK(found.device_bytes ==
            (batch % 50 == 0 ? seconds{static_cast<double>(batch)} : seconds()));
      CHECK(found.loads.size() == (batch % 50 == 0 ? 1 : 0));
    }
  });
}

}  // namespace
}  // namespace slow_rank_test
