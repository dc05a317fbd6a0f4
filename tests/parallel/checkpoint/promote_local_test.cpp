// promote_local: a checkpoint on the disks of several nodes becomes one in the shared folder, also
// when nodes, disks or files are lost.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/checkpoint/promote_local.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/support/files.hpp>
#include <parallel/support/local_checkpoints.hpp>

namespace promote_local_test {
namespace pc = parallel::checkpoint;
namespace fs = std::filesystem;
using names = std::vector<std::string>;
using test::contains;

/// Runs promote_local on one rank for each of `by_rank`, the names of the ranks' nodes. Returns its
/// message, which is equal on all ranks.
std::string promote(test::disks const& disks, names const& by_rank, pc::claim_id owner = {},
                    parallel::action_hook const& on_action = {}) {
  std::vector<std::string> messages(by_rank.size());
  parallel::threads::run(
      static_cast<int>(by_rank.size()), [&](parallel::threads::communicator& world) {
        parallel::host::stream exchanges;
        auto const rank = static_cast<std::size_t>(world.rank());
        messages[rank] =
            pc::promote_local(world, exchanges, disks.shared(), owner,
                              {disks.folder_of(by_rank[rank]), pc::node_map(by_rank)}, on_action);
      });
  for (auto const& one : messages) CHECK(one == messages.front());
  return messages.front();
}

/// Damages a node's copy of a file of checkpoint ep0-ba7 in a slice, or in its header.
void damage(test::disks const& disks, std::string const& node, int rank, bool in_header = false) {
  auto const file = disks.folder_of(node) / "ep0-ba7" /
                    parallel::concat("rank-0000", rank, "-F32-000.safetensors");
  auto content = test::read_all(file);
  (in_header ? content[20] : content.back()) ^= 1;
  test::write_all(file, content);
}

bool has_leftovers(fs::path const& root) {
  return std::any_of(fs::directory_iterator(root), fs::directory_iterator(), [](auto const& entry) {
    return !pc::name_of_leftover(entry.path().filename().native()).empty();
  });
}

TEST_CASE("promote_local: files on the nodes' disks become a checkpoint in the shared folder") {
  for (auto const& by_rank : {test::node_names(1, 3), test::node_names(2, 2),
                              test::node_names(3, 2), names{"a", "b", "b", "c", "c", "c"}}) {
    test::disks const disks;
    disks.save(by_rank, 7);
    CHECK(contains(promote(disks, by_rank), "took the local checkpoint ep0-ba7 from "));
    CHECK(test::holds_checkpoint(disks.shared() / "ep0-ba7", 7));
    CHECK(pc::latest(disks.shared()).folder->filename() == "ep0-ba7");
    CHECK_FALSE(has_leftovers(disks.shared()));
    for (auto const& entry : fs::directory_iterator(disks.folder_of("whole") / "ep0-ba7"))
      CHECK(test::read_all(entry.path()) ==
            test::read_all(disks.shared() / "ep0-ba7" / entry.path().filename().native()));
    CHECK(promote(disks, by_rank).empty());  // the local checkpoint is no longer newer
  }
}

TEST_CASE("promote_local: no message when the nodes' disks are empty") {
  test::disks const disks;
  CHECK(promote(disks, test::node_names(2, 1)).empty());
  CHECK_FALSE(fs::exists(disks.shared()));
}

TEST_CASE("promote_local: any one node or its disk may be lost; any number of ranks can continue") {
  auto const all_nodes = test::node_names(4, 2);
  for (std::string const lost : {"a", "b", "c", "d"})
    for (bool const comes_back : {false, true}) {
      test::disks const disks;
      disks.save(all_nodes, 7);
      fs::remove_all(disks.folder_of(lost));
      names present_nodes;
      for (auto const& name : all_nodes)
        if (comes_back || name != lost) present_nodes.push_back(name);
      present_nodes.push_back("new");  // a replacement
      present_nodes.insert(present_nodes.begin(), "also new");
      CHECK(contains(promote(disks, present_nodes), "took the local checkpoint"));
      CHECK(test::holds_checkpoint(disks.shared() / "ep0-ba7", 7));
    }
}

TEST_CASE(
    "promote_local: two nodes may be lost unless they are neighbours; then the message lists the "
    "missing files") {
  auto const all_nodes = test::node_names(4, 2);
  test::disks const disks;
  test::save_checkpoint(disks.shared(), 3, 2);
  disks.save(all_nodes, 7);
  fs::remove_all(disks.folder_of("b"));
  fs::remove_all(disks.folder_of("c"));
  CHECK(promote(disks, names{"d", "a"}) ==
        "the local checkpoint ep0-ba7 is lost: no node of this run has an intact copy of "
        "rank-00002-F32-000.safetensors, rank-00003-F32-000.safetensors");
  CHECK(pc::latest(disks.shared()).folder->filename() == "ep0-ba3");
  CHECK_FALSE(has_leftovers(disks.shared()));

  test::disks const other_disks;
  other_disks.save(all_nodes, 7);
  CHECK(contains(promote(other_disks, names{"b", "d", "d"}), "from 2 nodes"));
  CHECK(test::holds_checkpoint(other_disks.shared() / "ep0-ba7", 7));
}

TEST_CASE("promote_local: a checkpoint is lost if no node has its manifest; one node is enough") {
  auto const all_nodes = test::node_names(3, 1);
  test::disks const disks;
  disks.save(all_nodes, 7);
  for (std::string const node : {"a", "b"})
    test::write_all(disks.folder_of(node) / "ep0-ba7/manifest.json", "{");
  CHECK(promote(disks, names{"a", "b"}) ==
        "the local checkpoint ep0-ba7 is lost: no node of this run has its manifest");
  CHECK(contains(promote(disks, all_nodes), "took "));
  CHECK(test::holds_checkpoint(disks.shared() / "ep0-ba7", 7));
}

TEST_CASE("promote_local: a damaged file is taken from the other node that has it, with a note") {
  auto const all_nodes = test::node_names(3, 2);
  for (std::string const node : {"b", "c"}) {  // the owner and its neighbour
    test::disks const disks;
    disks.save(all_nodes, 7);
    damage(disks, node, 2);
    fs::resize_file(disks.folder_of("a") / "ep0-ba7/rank-00000-F32-000.safetensors", 100);
    // A run that takes the intact copy first does not see the damaged one.
    auto const note = promote(disks, all_nodes) + promote(disks, all_nodes);
    CHECK(contains(note, "took the local checkpoint ep0-ba7 from 3 nodes"));
    CHECK_FALSE(contains(note, "cut short"));  // the shortened file does not count as a copy
    CHECK(test::holds_checkpoint(disks.shared() / "ep0-ba7", 7));
  }
  auto const two = test::node_names(2, 2);
  test::disks const disks;
  disks.save(two, 7);
  for (int const rank : {0, 1, 2, 3}) damage(disks, "a", rank, rank % 2 == 0);
  auto const note = promote(disks, two);
  CHECK(contains(note, "took the local checkpoint ep0-ba7 from 2 nodes; "));
  CHECK(contains(note, (disks.folder_of("a") / "ep0-ba7/rank-0000").native()));
  CHECK(contains(note, "its header (the first 65536 bytes) is damaged"));
  CHECK_FALSE(contains(note, (disks.folder_of("b") / "ep0-ba7").native()));
  CHECK(test::holds_checkpoint(disks.shared() / "ep0-ba7", 7));
}

TEST_CASE("promote_local: a file whose copies are all damaged is lost") {
  auto const all_nodes = test::node_names(3, 2);
  test::disks const disks;
  disks.save(all_nodes, 7);
  damage(disks, "b", 2);
  damage(disks, "c", 2);
  auto const note = promote(disks, all_nodes);
  CHECK(contains(
      note, "is lost: no node of this run has an intact copy of rank-00002-F32-000.safetensors; "));
  CHECK(contains(note, (disks.folder_of("b") / "ep0-ba7/rank-00002").native()));
  CHECK(contains(note, (disks.folder_of("c") / "ep0-ba7/rank-00002").native()));
  CHECK_FALSE(fs::exists(disks.shared() / "ep0-ba7"));
  CHECK_FALSE(has_leftovers(disks.shared()));
}

TEST_CASE("promote_local: files of a run that was considered lost do not count") {
  auto const all_nodes = test::node_names(2, 1);
  test::disks const disks;
  pc::claim_id const lost_run{1, 0xa}, second_run{2, 0xb}, third_run{3, 0xc};
  disks.save(all_nodes, 7, second_run);
  auto const second_pointer = test::read_all(disks.shared() / "local.json");
  // The lost run has not noticed that another one has taken over, and saves once more.
  disks.save(all_nodes, 7, lost_run);
  test::write_all(disks.shared() / "local.json", second_pointer);
  CHECK(promote(disks, all_nodes, third_run) ==
        "the local checkpoint ep0-ba7 is lost: no node of this run has its manifest");
  CHECK_FALSE(fs::exists(disks.shared() / "ep0-ba7"));

  // A later batch, but of an earlier run than the checkpoint in the shared folder.
  disks.save(all_nodes, 9, lost_run);
  test::save_checkpoint(disks.shared(), 4, 2, {}, second_run);
  CHECK(promote(disks, all_nodes, third_run).empty());
  CHECK_FALSE(fs::exists(disks.shared() / "ep0-ba9"));
}

TEST_CASE("promote_local: a newer run's checkpoint replaces later batches of an older run") {
  auto const all_nodes = test::node_names(2, 1);
  test::disks const disks;
  test::save_checkpoint(disks.shared(), 50, 2, {}, {1, 0xa});
  disks.save(all_nodes, 7, {2, 0xb});
  CHECK(contains(promote(disks, all_nodes, {3, 0xc}), "took "));
  CHECK(pc::list_folders(disks.shared()).size() == 1);
  CHECK(test::holds_checkpoint(disks.shared() / "latest", 7));
  CHECK(pc::read_manifest(disks.shared() / "ep0-ba7").writer == pc::claim_id{3, 0xc});
}

TEST_CASE(
    "promote_local: a stop before any disk action leaves the old checkpoints, and the next call "
    "completes") {
  auto const all_nodes = test::node_names(2, 2);
  int allowed_actions = 0;
  for (bool failed = true; failed; ++allowed_actions) {
    test::disks const disks;
    test::save_checkpoint(disks.shared(), 3, 2, {}, {1, 0xa});
    disks.save(all_nodes, 7, {1, 0xa});
    std::atomic<int> action_count = 0;
    failed = !test::message_of([&] {
                auto const note = promote(disks, all_nodes, {2, 0xb}, [&](std::string_view) {
                  if (action_count++ >= allowed_actions) parallel::fail("stopped");
                });
              }).empty();
    for (auto const& entry : pc::list_checkpoints(disks.shared())) CHECK(entry.valid());
    pc::remove_leftovers(disks.shared(), pc::is_name_in_root);  // as the next claim does
    (void)promote(disks, all_nodes, {3, 0xc});
    CHECK(test::holds_checkpoint(disks.shared() / "latest", 7));
    CHECK_FALSE(has_leftovers(disks.shared()));
  }
  CHECK(allowed_actions > 10);
}

TEST_CASE(
    "promote_local: if the shared folder cannot be written, all ranks stop, and nothing is lost") {
  auto const all_nodes = test::node_names(2, 2);
  test::disks const disks;
  test::save_checkpoint(disks.shared(), 3, 2, {}, {1, 0xa});
  disks.save(all_nodes, 7, {1, 0xa});
  auto const message = test::message_of([&] {
    (void)promote(disks, all_nodes, {2, 0xb}, [&](std::string_view action) {
      if (action != "create copied file") return;
      for (auto const& entry :
           fs::directory_iterator(disks.shared()))  // finds the temporary folder of the copies
        if (!pc::name_of_leftover(entry.path().filename().native()).empty())
          for (int rank = 0; rank < 4; ++rank)
            test::write_all(
                entry.path() / parallel::concat("rank-0000", rank, "-F32-000.safetensors"), "mine");
    });
  });
  CAPTURE(message);
  CHECK(contains(message,
                 "the local checkpoint ep0-ba7 could not be copied into the shared folder: "));
  CHECK(contains(message, "cannot create"));
  CHECK(pc::latest(disks.shared()).folder->filename() == "ep0-ba3");
  CHECK_FALSE(has_leftovers(disks.shared()));
  CHECK(contains(promote(disks, all_nodes, {3, 0xc}),
                 "took the local checkpoint ep0-ba7 from 2 nodes"));
}

TEST_CASE("promote_local: a run that has lost the claim puts nothing into the shared folder") {
  auto const all_nodes = test::node_names(2, 1);
  test::disks const disks;
  disks.save(all_nodes, 7);
  CHECK_THROWS_AS(promote(disks, all_nodes, {2, 0xb},
                          [](std::string_view action) {
                            if (action == "create copied file")
                              parallel::fail<pc::claim_lost>("another has taken over");
                          }),
                  pc::claim_lost);
  CHECK_FALSE(fs::exists(disks.shared() / "ep0-ba7"));
}

TEST_CASE("promote_local: a pointer that cannot be read is reported and left alone") {
  auto const all_nodes = test::node_names(2, 1);
  test::disks const disks;
  disks.save(all_nodes, 7);
  test::write_all(disks.shared() / "local.json", "x");
  CHECK(contains(promote(disks, all_nodes),
                 (disks.shared() / "local.json: not valid JSON").native()));
}

}  // namespace promote_local_test
