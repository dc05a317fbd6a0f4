// Checkpoints on the nodes' own disks: there are two copies of each file, which stay whole
// whichever process is stopped at any time.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "parallel/support/local_cluster.hpp"

namespace local_saver_test {
namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using cluster = test::local_cluster;
using parallel::index;
using test::state_after;
using test::files_of;
using test::promoted;
using names = std::vector<std::string>;

names listed(fs::path const& folder) {
  names out;
  for (auto const& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename());
  std::ranges::sort(out);
  return out;
}

TEST_CASE(
    "local saver: a node has the files of its ranks and of the node before, as in a shared save") {
  for (auto const& by_rank : {names{"a", "a", "b", "b"}, names{"a", "b", "c", "c"},
                              names{"a", "b", "a", "c"}, names{"a", "a", "a", "a"}})
    for (bool const in_background : {true, false}) {
      cluster nodes_run;
      nodes_run.by_rank = by_rank;
      nodes_run.run(in_background, [&](auto& trainer, auto& shared_saver, auto& saver) {
        (void)trainer.step(0);
        CHECK_FALSE(saver.pending());
        saver.advance();  // has nothing to do
        CHECK(saver.save(state_after(1)));
        CHECK(saver.pending() == in_background);
        if (in_background) trainer.stepper().initialise(99);  // training changes all values
        while (saver.pending()) saver.advance();
        CHECK(saver.costs().saves == 1);
        CHECK(shared_saver.costs().saves == 0);
      });
      nodes_run.run(true, [&](auto& trainer, auto& shared_saver, auto&) {
        (void)trainer.step(0);
        shared_saver.save(state_after(1));
        shared_saver.complete();
      });
      auto const expected = files_of(nodes_run.shared() / "ep0-ba1");
      pc::node_map const nodes(by_rank);
      for (int rank = 0; rank < nodes.ranks(); ++rank) {
        auto const node = nodes.node_of(rank);
        auto const previous_node = (node + nodes.nodes() - 1) % nodes.nodes();
        auto const folder = nodes_run.local(rank).folder;
        CHECK(listed(folder) == names{"ep0-ba1"});
        auto const found = files_of(folder / "ep0-ba1");
        for (int owner = 0; owner < nodes.ranks(); ++owner) {
          auto const mark = parallel::concat("rank-0000", owner);
          bool const is_expected =
              nodes.node_of(owner) == node || nodes.node_of(owner) == previous_node;
          for (auto const& file : expected) {
            if (!file.first.starts_with(mark)) continue;
            REQUIRE(found.contains(file.first) == is_expected);
            if (is_expected) CHECK(found.at(file.first) == file.second);
          }
        }
        CHECK(test::read_all(folder / "ep0-ba1/manifest.json") ==
              test::read_all(nodes_run.shared() / "ep0-ba1/manifest.json"));
      }
      CHECK(pc::read_local_pointer(nodes_run.shared())->id == pc::checkpoint_id{0, 1});
    }
}

TEST_CASE("local saver: the next save replaces the previous one") {
  cluster const nodes_run;
  nodes_run.run(true, [&](auto& trainer, auto&, auto& saver) {
    for (index const batch : {1, 2, 3}) {
      trainer.stepper().initialise(static_cast<std::uint64_t>(batch));
      CHECK(saver.save(state_after(batch)));
      saver.complete();
    }
    CHECK(saver.costs().saves == 3);
  });
  CHECK(listed(nodes_run.folder / "a") == names{"ep0-ba3"});
  CHECK(listed(nodes_run.folder / "b") == names{"ep0-ba3"});
  CHECK(promoted(nodes_run) == "ep0-ba3");
}

TEST_CASE("local saver: a save is skipped while another, local or shared, is in progress") {
  cluster nodes_run;
  std::latch writes(1), copies(1);
  nodes_run.on_action = [&](std::string_view step) {
    if (step == "write slice") writes.wait();
  };
  nodes_run.on_node = [&](int rank, std::string_view step) {
    if (rank == 3 && step == "create copied file") copies.wait();
  };
  nodes_run.run(true, [&](auto& trainer, auto& shared_saver, auto& saver) {
    CHECK(saver.save(state_after(1)));
    for (auto* const gate : {&writes, &copies}) {  // no rank waits while a thread is blocked there
      CHECK_FALSE(saver.save(state_after(2)));
      for (int batch = 0; batch < 20; ++batch) {
        saver.advance();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      CHECK(saver.pending());
      CHECK(listed(nodes_run.local(trainer.rank()).folder) != names{"ep0-ba1"});
      CHECK_FALSE(fs::exists(nodes_run.shared() / "local.json"));
      trainer.world().barrier(trainer.exchanges()).wait();
      if (trainer.rank() == 0) gate->count_down();
    }
    saver.complete();
    shared_saver.save(state_after(3));
    CHECK_FALSE(saver.save(state_after(4)));
    CHECK_FALSE(saver.pending());
    saver.advance();
    shared_saver.complete();
    CHECK(saver.save(state_after(5)));
    CHECK_FALSE(shared_saver.pending());  // the saver knows that the pending save is not its own
    shared_saver.advance();
    saver.complete();
  });
  CHECK(pc::read_local_pointer(nodes_run.shared())->id == pc::checkpoint_id{0, 5});
  CHECK(pc::list_folders(nodes_run.shared()).size() == 1);
}

TEST_CASE(
    "local saver: the pointer names a save once all nodes have it; only then the old one goes") {
  cluster nodes_run;
  nodes_run.by_rank = {"a", "b", "c", "c"};
  std::atomic<int> named = 0, pointed = 0, removed = 0;
  nodes_run.on_node = [&](int rank, std::string_view step) {
    if (step == "rename folder") {
      if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++named;
    }
    if (step == "rename to trash") {
      CHECK(pc::read_local_pointer(nodes_run.shared())->id.batch == 2);
      ++removed;
    }
  };
  nodes_run.on_action = [&](std::string_view step) {
    if (step == "rename pointer") CHECK(named == 3 * ++pointed);
  };
  nodes_run.run(true, [&](auto&, auto&, auto& saver) {
    for (index const batch : {1, 2}) {
      (void)saver.save(state_after(batch));
      saver.complete();
    }
  });
  CHECK(pointed == 2);
  CHECK(removed == 3);
}

TEST_CASE(
    "local saver: stopped at any step, one of the last two checkpoints is whole on remaining "
    "nodes") {
  int first = 0, second = 0;
  int k = 0;
  for (bool failed = true; failed; ++k) {
    CAPTURE(k);
    cluster nodes_run;
    nodes_run.by_rank = {"a", "b", "b", "c"};
    std::atomic<bool> counts = false;
    std::atomic<int> step_count = 0;
    nodes_run.on_action =
        [&](std::string_view step) {  // all ranks stop, so that nothing is written later
          bool const changes_nothing = step == "write slice" || step.starts_with("flush");
          if (counts && !changes_nothing && step_count++ >= k) parallel::fail("stopped");
        };
    auto const message = test::message_of([&] {
      nodes_run.run(k % 2 == 0, [&](auto& trainer, auto&, auto& saver) {
        (void)saver.save(state_after(1));
        saver.complete();
        trainer.world().barrier(trainer.exchanges()).wait();
        counts = true;
        trainer.world().barrier(trainer.exchanges()).wait();
        (void)saver.save(state_after(2));
        while (saver.pending()) saver.advance();
      });
    });
    failed = !message.empty() || step_count > k;
    if (!message.empty()) CHECK(test::contains(message, "stopped"));
    nodes_run.on_action = {};
    fs::remove_all(nodes_run.folder / std::string(1, static_cast<char>('a' + k % 3)));
    auto const found = promoted(nodes_run);
    CHECK((found == "ep0-ba1" || found == "ep0-ba2"));
    ++(found == "ep0-ba1" ? first : second);
  }
  CHECK(first > 15);
  CHECK(second > 3);
}

}  // namespace
}  // namespace local_saver_test
