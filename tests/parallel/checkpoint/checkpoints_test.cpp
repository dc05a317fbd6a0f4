#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace checkpoints_test {
namespace pc = parallel::checkpoint;
using parallel::index;

std::vector<index> batches(std::filesystem::path const& root) {
  std::vector<index> out;
  for (auto const& entry : pc::list_checkpoints(root))
    out.push_back(entry.valid() ? entry.id.batch : -entry.id.batch);
  return out;
}

TEST_CASE("checkpoints: they are listed newest first; other folders are not checkpoints") {
  test::temporary_folder const folder;
  CHECK(pc::list_checkpoints(folder / "nowhere").empty());
  for (index const number : {9, 10, 1}) test::save_checkpoint(folder.path(), number, 1);
  std::filesystem::create_directory(folder / "ep0-ba11.tmp-0000000000000000");
  std::filesystem::create_directory(folder / "ep0-ba12");
  test::write_all(folder / "ep0-ba13", "a file");
  std::filesystem::create_directory(folder / "other");
  CHECK(batches(folder.path()) == std::vector<index>{-12, 10, 9, 1});
  CHECK(test::contains(pc::list_checkpoints(folder.path())[0].problem,
                       "ep0-ba12/manifest.json: cannot open"));
}

TEST_CASE(
    "checkpoints: latest follows the link, or falls back to the newest valid one with a note") {
  test::temporary_folder const folder;
  CHECK_FALSE(pc::latest(folder.path()).folder.has_value());
  CHECK(pc::latest(folder.path()).note.empty());
  CHECK_FALSE(pc::latest(folder / "nowhere").folder.has_value());
  for (index const number : {1, 2, 3}) test::save_checkpoint(folder.path(), number, 1);
  pc::point_link({folder.path(), {0, 2}}, "latest");  // a user goes back to an older one
  CHECK(pc::latest(folder.path()).folder->filename() == "ep0-ba2");
  CHECK(pc::latest(folder.path()).note.empty());

  test::write_all(folder / "ep0-ba2/manifest.json", "rubbish");
  CHECK(pc::latest(folder.path()).folder->filename() == "ep0-ba3");
  CHECK(
      test::contains(pc::latest(folder.path()).note, "latest: names ep0-ba2, which is not valid"));
  CHECK(
      test::contains(pc::latest(folder.path()).note, "took the newest valid checkpoint, ep0-ba3"));

  std::filesystem::remove(folder / "latest");
  CHECK(pc::latest(folder.path()).folder->filename() == "ep0-ba3");
  CHECK(test::contains(pc::latest(folder.path()).note, "no such link; took the newest valid"));
  std::filesystem::create_symlink("../elsewhere", folder / "latest");
  CHECK(test::contains(pc::latest(folder.path()).note, "does not name a checkpoint"));

  std::filesystem::remove(folder / "ep0-ba3/rank-00000-F32-000.safetensors");
  CHECK(pc::latest(folder.path()).folder->filename() == "ep0-ba1");
  std::filesystem::resize_file(folder / "ep0-ba1/rank-00000-F32-000.safetensors", 70);
  CHECK_FALSE(pc::latest(folder.path()).folder.has_value());
  CHECK(test::contains(pc::latest(folder.path()).note, "there is no valid checkpoint"));
  CHECK(test::contains(pc::latest(folder.path()).note, "has 70 bytes, the manifest says"));
}

TEST_CASE(
    "checkpoints: prune keeps the last k whole ones, damaged ones, and those of latest and best") {
  test::temporary_folder const folder;
  for (index const number : {1, 2, 3, 4, 5}) test::save_checkpoint(folder.path(), number, 1);
  std::filesystem::resize_file(folder / "ep0-ba5/manifest.json", 10);
  CHECK(pc::prune(folder.path(), 3).size() == 1);
  CHECK(batches(folder.path()) == std::vector<index>{-5, 4, 3, 2});
  pc::point_link({folder.path(), {0, 2}}, "latest");
  CHECK(pc::prune(folder.path(), 1) == std::vector<std::filesystem::path>{folder / "ep0-ba3"});
  CHECK(batches(folder.path()) == std::vector<index>{-5, 4, 2});
  CHECK(pc::prune(folder.path(), 9).empty());
  pc::point_link({folder.path(), {0, 4}}, "latest");
  pc::point_link({folder.path(), {0, 2}}, "best");
  CHECK(pc::prune(folder.path(), 1).empty());
  std::filesystem::remove(folder / "best");
  CHECK(pc::prune(folder.path(), 1) == std::vector<std::filesystem::path>{folder / "ep0-ba2"});
  CHECK(test::contains(test::message_of([&] { pc::prune(folder.path(), 0); }),
                       "at least one checkpoint must be kept"));
}

TEST_CASE("checkpoints: prune also keeps those of every n-th batch") {
  test::temporary_folder const folder;
  for (index const number : {1, 2, 3, 4, 5, 6, 7}) test::save_checkpoint(folder.path(), number, 1);
  CHECK(pc::prune(folder.path(), 2, {}, 3).size() == 4);
  CHECK(batches(folder.path()) == std::vector<index>{7, 6, 3});
}

TEST_CASE(
    "checkpoints: an interrupted prune shows no partial checkpoint, and is cleaned up later") {
  test::temporary_folder const folder;
  for (index const number : {1, 2, 3}) test::save_checkpoint(folder.path(), number, 1);
  auto const stop = [](std::string_view step) {
    if (step == "remove trash") parallel::fail("stopped");
  };
  CHECK(test::message_of([&] { pc::prune(folder.path(), 1, stop); }) == "stopped");
  CHECK(batches(folder.path()) == std::vector<index>{3, 2});
  CHECK(std::filesystem::exists(folder / "ep0-ba1.trash-0000000000000000"));
  test::save_checkpoint(folder.path(), 4, 1);
  CHECK_FALSE(std::filesystem::exists(folder / "ep0-ba1.trash-0000000000000000"));
}

TEST_CASE("checkpoints: a run that starts over removes an earlier run's later checkpoints") {
  test::temporary_folder const folder;
  for (index const number : {1, 7, 9}) test::save_checkpoint(folder.path(), number, 1);
  std::filesystem::create_directory(folder / "ep0-ba8");  // damaged checkpoints are removed too
  test::save_checkpoint(folder.path(), 2, 1);
  CHECK(pc::remove_after(folder.path(), {0, 2}).size() == 3);
  CHECK(batches(folder.path()) == std::vector<index>{2, 1});
  CHECK(pc::latest(folder.path()).folder->filename() == "ep0-ba2");
}

}  // namespace checkpoints_test
