#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/local/neighbour_copies.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/support/files.hpp>

namespace neighbour_copies_test {
namespace pc = parallel::checkpoint;
namespace fs = std::filesystem;
using parallel::threads::communicator;
using names = std::vector<std::string>;

/// The files that rank `rank` writes in its `save`th save.
std::map<std::string, std::string> files_of(int rank, int save) {
  std::map<std::string, std::string> out;
  for (int i = 0; i < (rank + save) % 3; ++i) {  // some ranks have no files
    auto& text = out[parallel::concat("rank-", rank, "-", i)];
    for (int line = 0; line < 1 + 20 * i + 5 * rank; ++line)
      text += static_cast<char>('a' + (rank * 7 + save * 3 + line) % 26);
  }
  return out;
}

/// Each rank writes its files into its node's folder, and copies them in pieces of `piece` bytes.
void check_copies(names const& by_rank, std::size_t piece) {
  test::temporary_folder const folder;
  pc::node_map const nodes(by_rank);
  for (auto const& name : by_rank) fs::create_directories(folder / name);
  parallel::threads::run(nodes.ranks(), [&](communicator& world) {
    int const rank = world.rank();
    auto const node_folder = folder / by_rank[static_cast<std::size_t>(rank)];
    parallel::host::stream exchanges;
    pc::neighbour_copies copies(world.split(0, "copies"), nodes, piece);
    CHECK_FALSE(copies.is_done());
    for (int save = 0; save < 3; ++save) {
      auto const save_folder = node_folder / std::to_string(save);
      if (nodes.is_first(rank)) fs::create_directory(save_folder);
      world.barrier(exchanges).wait();
      pc::file_sizes sizes;
      for (auto const& [name, text] : files_of(rank, save)) {
        test::write_all(save_folder / name, text);
        sizes[name] = text.size();
      }
      copies.start(save_folder, sizes);
      CHECK(copies.pending());
      std::int64_t sum = 1;  // other communication of the ranks must not be disturbed
      for (int i = 0; i < 5; ++i) {
        world.all_reduce(exchanges, std::span(&sum, 1), parallel::reduction::sum).wait();
        CHECK(sum == world.size());
        sum = 1;
      }
      copies.finish();
      CHECK_FALSE(copies.pending());
      world.barrier(exchanges).wait();
      for (int const from : nodes.senders_to(rank))
        for (auto const& [name, text] : files_of(from, save))
          CHECK(test::read_all(save_folder / name) == text);
      CHECK(fs::exists(save_folder));
    }
  });
  // Every file is on exactly two nodes.
  std::map<std::string, int> found;
  for (auto const& entry : fs::recursive_directory_iterator(folder.path()))
    if (entry.is_regular_file())
      ++found[entry.path().parent_path().filename() / entry.path().filename()];
  CHECK_FALSE(found.empty());
  for (auto const& file : found) CHECK(file.second == 2);
}

TEST_CASE("neighbour copies: every rank's files come to the next node, in pieces of any size") {
  for (auto const& by_rank : {names{"a", "b"}, names{"a", "a", "b", "b"}, names{"a", "b", "c"},
                              names{"a", "a", "a", "b", "c", "c"}, names{"a", "b", "b", "b"}})
    for (std::size_t const piece : {1U, 7U, 1000U}) check_copies(by_rank, piece);
}

TEST_CASE("neighbour copies: a file that cannot be read or written ends all ranks with its name") {
  for (bool const reads : {true, false}) {
    CAPTURE(reads);
    test::temporary_folder const folder;
    auto const message = test::message_of([&] {
      parallel::threads::run(2, [&](communicator& world) {
        auto const node_folder = folder / std::to_string(world.rank());
        fs::create_directory(node_folder);
        parallel::host::stream exchanges;
        pc::neighbour_copies copies(world.split(0), pc::node_map(names{"a", "b"}), 4);
        auto const name = std::to_string(world.rank());
        if (!reads || world.rank() == 0) test::write_all(node_folder / name, "something");
        if (!reads && world.rank() == 0) test::write_all(node_folder / "1", "in the way");
        world.barrier(exchanges).wait();
        copies.start(node_folder, {{name, 9}});
        while (!copies.is_done()) world.barrier(exchanges).wait();
        copies.finish();
        world.barrier(exchanges).wait();
      });
    });
    CHECK(test::contains(message, reads ? "1/1: cannot open" : "0/1: cannot create"));
  }
}

TEST_CASE(
    "neighbour copies: if no rank can write, all report it and none waits for another's piece") {
  test::temporary_folder const folder;
  auto const message = test::message_of([&] {
    auto const program = [&](communicator& world) {
      auto const node_folder = folder / std::to_string(world.rank());
      fs::create_directory(node_folder);
      parallel::host::stream exchanges;
      pc::neighbour_copies copies(world.split(0), pc::node_map(names{"a", "b", "c"}), 4);
      auto const name = std::to_string(world.rank());
      test::write_all(node_folder / name, "something");
      world.barrier(exchanges).wait();
      copies.start(node_folder, {{name, 9}}, [](std::string_view step) {
        if (step == "create copied file") parallel::fail("the disk is full");
      });
      auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!copies.is_done()) {
        world.barrier(exchanges).wait();
        if (std::chrono::steady_clock::now() > limit) parallel::fail("nobody says so");
      }
    };
    parallel::threads::run(3, program, {.deadline = std::chrono::seconds(60)});
  });
  CHECK(test::contains(message, "the disk is full"));
}

TEST_CASE("neighbour copies: the hook is called before each write; one node has no neighbour") {
  test::temporary_folder const folder;
  std::map<int, std::string> steps;
  parallel::threads::run(2, [&](communicator& world) {
    auto const node_folder = folder / std::to_string(world.rank());
    fs::create_directory(node_folder);
    auto& steps_seen = [&]() -> std::string& {
      static std::mutex lock;
      std::scoped_lock const held(lock);
      return steps[world.rank()];
    }();
    if (world.rank() == 0) test::write_all(node_folder / "x", "1");
    pc::neighbour_copies copies(world.split(0), pc::node_map(names{"a", "b"}));
    copies.start(node_folder, world.rank() == 0 ? pc::file_sizes{{"x", 1}} : pc::file_sizes{},
                 [&](std::string_view step) { steps_seen += std::string(step) + ";"; });
    copies.finish();
    CHECK(test::contains(
        test::message_of([&] { pc::neighbour_copies(world.split(0), pc::node_map(2)); }),
        "a single node has no neighbour"));
  });
  CHECK(steps[0].empty());
  CHECK(steps[1] == "create copied file;flush copied file;");
}

}  // namespace neighbour_copies_test
