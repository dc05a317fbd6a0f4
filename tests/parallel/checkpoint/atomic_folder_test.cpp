#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include <doctest/doctest.h>

#include <parallel/checkpoint/atomic_folder.hpp>
#include <parallel/support/files.hpp>

namespace atomic_folder_test {
namespace pc = parallel::checkpoint;

TEST_CASE(
    "atomic folder: leftovers are recognised by their whole name, and only selected ones are "
    "removed") {
  CHECK(pc::temporary_name("a/x", 255).native() == "a/x.tmp-00000000000000ff");
  CHECK(pc::name_of_leftover("x.tmp-00000000000000ff") == "x");
  CHECK(pc::name_of_leftover("x.trash-0123456789abcdef") == "x");
  CHECK(pc::name_of_leftover("x.old-0123456789abcdef") == "x");
  for (auto const* other :
       {"x", "x.tmp", "x.tmp-", "x.tmp-00000000000000fg", ".tmp-00000000000000ff",
        "x.tmp-00000000000000ff0", "x.tmp-00000000000000ff.keep"})
    CHECK(pc::name_of_leftover(other).empty());
  test::temporary_folder const folder;
  for (auto const* name : {"x.tmp-00000000000000ff", "y.tmp-00000000000000ff", "x", "x.tmp"})
    std::filesystem::create_directories(folder / name / "inner");
  pc::remove_leftovers(folder.path(), [](std::string_view name) { return name == "x"; });
  CHECK_FALSE(std::filesystem::exists(folder / "x.tmp-00000000000000ff"));
  CHECK(std::filesystem::exists(folder / "y.tmp-00000000000000ff"));
  CHECK(std::filesystem::exists(folder / "x"));
  CHECK(std::filesystem::exists(folder / "x.tmp"));
}

TEST_CASE("atomic folder: a folder is published once, and replaces another only when allowed") {
  test::temporary_folder const folder;
  auto const make = [&](std::string const& content) {
    std::filesystem::create_directory(folder / "t");
    test::write_all(folder / "t/f", content);
  };
  make("one");
  pc::publish_folder(folder / "t", folder / "x", pc::if_exists::refuse);
  CHECK(test::read_all(folder / "x/f") == "one");
  make("two");
  CHECK(test::contains(test::message_of([&] {
                         pc::publish_folder(folder / "t", folder / "x", pc::if_exists::refuse);
                       }),
                       "/x: exists already"));
  CHECK(test::read_all(folder / "x/f") == "one");
  pc::publish_folder(folder / "t", folder / "x", pc::if_exists::replace);
  CHECK(test::read_all(folder / "x/f") == "two");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("atomic folder: a folder removed while it is published is whole or absent") {
  for (int round = 0; round < 30; ++round) {
    test::temporary_folder const folder;
    std::filesystem::create_directory(folder / "x.tmp-00000000000000ff");
    for (int i = 0; i < 20; ++i)
      test::write_all(folder / "x.tmp-00000000000000ff" / std::to_string(i), "content");
    std::thread writer([&] {
      for (int i = 0; i < round * 100; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      std::error_code error;
      std::filesystem::rename(folder / "x.tmp-00000000000000ff", folder / "x", error);
    });
    pc::remove_leftovers(folder.path(), [](std::string_view name) { return name == "x"; });
    writer.join();
    auto const left = std::distance(std::filesystem::directory_iterator(folder.path()), {});
    CHECK(left == (std::filesystem::exists(folder / "x") ? 1 : 0));
    if (left == 1)
      CHECK(std::distance(std::filesystem::directory_iterator(folder / "x"), {}) == 20);
  }
}

TEST_CASE("atomic folder: a folder being removed loses its name first") {
  test::temporary_folder const folder;
  std::filesystem::create_directory(folder / "x");
  std::filesystem::create_directory(folder / "x.trash-0000000000000000");
  auto const stop = [](std::string_view step) {
    if (step == "remove trash") parallel::fail("stopped");
  };
  CHECK(test::message_of([&] { pc::remove_folder(folder / "x", stop); }) == "stopped");
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  CHECK(std::filesystem::exists(folder / "x.trash-0000000000000001"));
  CHECK(test::contains(test::message_of([&] { pc::remove_folder(folder / "x"); }),
                       "cannot rename x to this name: No such file"));
}

TEST_CASE("atomic folder: an old folder without its successor is restored, otherwise removed") {
  test::temporary_folder const folder;
  auto const every_name = [](std::string_view) { return true; };
  std::filesystem::create_directory(folder / "x.old-0000000000000000");
  test::write_all(folder / "x.old-0000000000000000/f", "old");
  std::filesystem::create_directory(folder / "x.tmp-00000000000000ff");
  pc::remove_leftovers(folder.path(), every_name);
  CHECK(test::read_all(folder / "x/f") == "old");
  std::filesystem::create_directory(folder / "x.old-0000000000000000");
  pc::remove_leftovers(folder.path(), every_name);
  CHECK(test::read_all(folder / "x/f") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

}  // namespace atomic_folder_test
