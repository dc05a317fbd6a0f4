#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace save_test {
namespace pc = parallel::checkpoint;
using parallel::index;

// Runs `action` in a child process; returns its status.
template <class Action>
int status_of_child(Action action) {
  auto const child = ::fork();
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = -1;
  parallel::require(::waitpid(child, &status, 0) == child, "waitpid failed");
  return status;
}

std::vector<std::string> names_in(std::filesystem::path const& folder) {
  std::vector<std::string> out;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    out.push_back(entry.path().filename().native());
  std::sort(out.begin(), out.end());
  return out;
}

TEST_CASE("save: the folder has the saved checkpoints, the last one as latest, and nothing else") {
  test::temporary_folder const folder;
  auto const root = folder / "run/checkpoints";  // the save creates it
  test::save_checkpoint(root, 4, 2);
  test::save_checkpoint(root, 8, 3);
  CHECK(names_in(root) == std::vector<std::string>{"ep0-ba4", "ep0-ba8", "latest"});
  CHECK(std::filesystem::read_symlink(root / "latest") == "ep0-ba8");
  CHECK(test::holds_checkpoint(root / "ep0-ba4", 4));
  CHECK(test::holds_checkpoint(root / "latest", 8));
}

TEST_CASE(
    "save: a folder named latest is refused before anything is saved; anything else is replaced") {
  test::temporary_folder const folder;
  auto const latest = folder / "latest";
  std::filesystem::create_directory(latest);
  CHECK(test::message_of([&] {
          pc::prepare_save({folder.path(), {0, 4}});
        }) == latest.native() +
                  ": is a folder, but saving puts a link of this name there; rename or remove it");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"latest"});
  std::filesystem::remove(latest);
  auto const saves_over_it = [&] {
    test::save_checkpoint(folder.path(), 4, 1);
    return std::filesystem::read_symlink(latest) == "ep0-ba4";
  };
  std::filesystem::create_symlink("ep0-ba1", latest);  // to nowhere
  CHECK(saves_over_it());
  std::filesystem::remove(latest);
  std::filesystem::create_directory(folder / "other");
  std::filesystem::create_symlink("other", latest);  // to a folder
  CHECK(saves_over_it());
  CHECK(std::filesystem::is_directory(folder / "other"));
  std::filesystem::remove(latest);
  test::write_all(latest, "ep0-ba1");
  CHECK(saves_over_it());
  std::filesystem::remove(latest);
  REQUIRE(::mkfifo(latest.c_str(), 0600) == 0);
  CHECK(saves_over_it());
}

TEST_CASE("save: the same batch saved again replaces the earlier one, or is refused") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 1);
  test::save_checkpoint(folder.path(), 4, 3);
  CHECK(test::holds_checkpoint(folder / "latest", 4));
  CHECK(std::filesystem::exists(folder / "ep0-ba4/rank-00002-F32-000.safetensors"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"ep0-ba4", "latest"});
  pc::save_target const target{folder.path(), {0, 4}, 0};
  pc::prepare_save(target);
  CHECK(test::contains(
      test::message_of([&] { pc::commit(target, {}, "{}", {.existing = pc::if_exists::refuse}); }),
      "ep0-ba4: exists already"));
  pc::abandon_save(target);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"ep0-ba4", "latest"});
}

// For every k, a process saves and is killed before its k-th action on the disk. The checkpoint
// that `latest` finds after that must be whole, and the next save and prune must work.
void kill_everywhere(index first, index second) {
  int steps = 0;
  {
    test::temporary_folder const folder;
    test::save_checkpoint(folder.path(), first, 2);
    test::save_checkpoint(folder.path(), second, 3, [&](std::string_view) { ++steps; });
  }
  CHECK(steps > 20);
  int kept_count = 0;
  int replaced = 0;
  for (int k = 0; k < steps; ++k) {
    test::temporary_folder const folder;
    test::save_checkpoint(folder.path(), first, 2);
    auto const status = status_of_child([&] {
      int step_count = 0;
      test::save_checkpoint(folder.path(), second, 3, [&](std::string_view) {
        if (step_count++ == k) ::raise(SIGKILL);
      });
    });
    REQUIRE(WIFSIGNALED(status));
    auto const found = pc::latest(folder.path());
    REQUIRE(found.folder.has_value());
    CHECK(found.note.empty());
    pc::checkpoint_reader const reader(*found.folder);
    auto const number = reader.state().at("batch").get<index>();
    CHECK((number == first || number == second));
    CHECK(test::holds_checkpoint(*found.folder, number));
    ++(number == first ? kept_count : replaced);
    for (auto const& entry : pc::list_checkpoints(folder.path()))
      CHECK_MESSAGE(entry.valid(), entry.problem);

    test::save_checkpoint(folder.path(), second, 4);
    CHECK(test::holds_checkpoint(folder / "latest", second));
    CHECK(pc::latest(folder.path()).folder->filename() == pc::checkpoint_id{0, second}.text());
    pc::prune(folder.path(), 1);
    CHECK(names_in(folder.path()) ==
          std::vector<std::string>{pc::checkpoint_id{0, second}.text(), "latest"});
  }
  CHECK(kept_count > 20);
  if (first != second) CHECK(replaced > 0);
}

TEST_CASE("save: a writer killed at any point leaves a whole checkpoint as latest") {
  kill_everywhere(4, 8);
}

TEST_CASE(
    "save: a writer killed while it saves a batch again leaves a whole checkpoint as latest") {
  kill_everywhere(4, 4);
}

TEST_CASE("save: a writer killed at a random moment leaves a whole checkpoint as latest") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 1, 2);
  for (unsigned delay = 0; delay < 4000; delay += 200) {
    auto const child = ::fork();
    if (child == 0) {
      for (index number = 2;; ++number) {
        test::save_checkpoint(folder.path(), number % 5 + 2, 3);
        pc::prune(folder.path(), 2);
      }
    }
    ::usleep(delay);
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    auto const found = pc::latest(folder.path());
    REQUIRE(found.folder.has_value());
    auto const number = pc::checkpoint_id::parse(found.folder->filename().native())->batch;
    CHECK(test::holds_checkpoint(*found.folder, number));
  }
}

TEST_CASE(
    "save: an exception at any point leaves the earlier checkpoint, and the next save works") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 2);
  int k = 0;
  for (bool failed = true; failed; ++k) {
    int step_count = 0;
    failed = !test::message_of([&] {
                test::save_checkpoint(folder.path(), 8, 3, [&](std::string_view) {
                  if (step_count++ == k) parallel::fail("stopped");
                });
              }).empty();
    auto const found = pc::latest(folder.path());
    REQUIRE(found.folder.has_value());
    CHECK(test::holds_checkpoint(*found.folder, found.folder->filename() == "ep0-ba4" ? 4 : 8));
  }
  CHECK(k > 20);
  CHECK(std::filesystem::read_symlink(folder / "latest") == "ep0-ba8");
}

TEST_CASE("save: a full disk is an error that names the file, and the old checkpoint stays") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 2);
  for (rlim_t const bytes : {100U, 65540U, 70000U}) {
    auto const status = status_of_child([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      rlimit const limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      pc::save_target const target{folder.path(), {0, 8}, 1};
      pc::prepare_save(target);
      auto const message = test::message_of([&] {
        pc::rank_writer writer(target, 0);
        std::vector<float> const values(100'000);
        writer.add<float>("w", std::vector<index>{100'000}, 0, values);
        static_cast<void>(writer.finish());
      });
      pc::abandon_save(target);
      if (!test::contains(message, "rank-00000-F32-000.safetensors: cannot write at byte") ||
          !test::contains(message, "File too large"))
        ::_exit(1);
    });
    CHECK(status == 0);
    CHECK(names_in(folder.path()) == std::vector<std::string>{"ep0-ba4", "latest"});
  }
  CHECK(test::holds_checkpoint(folder / "latest", 4));
}

TEST_CASE("save: a folder that cannot be written is an error with its path and the reason") {
  test::temporary_folder const folder;
  test::write_all(folder / "file", "x");
  CHECK(test::contains(
      test::message_of([&] { test::save_checkpoint(folder / "file/checkpoints", 4, 1); }),
      "/file/checkpoints: cannot create this folder: Not a directory"));
  if (::geteuid() != 0) {
    test::save_checkpoint(folder / "c", 4, 1);
    std::filesystem::permissions(folder / "c", std::filesystem::perms{0555});
    CHECK(test::contains(test::message_of([&] { test::save_checkpoint(folder / "c", 8, 1); }),
                         "Permission denied"));
    CHECK(test::holds_checkpoint(folder / "c/latest", 4));
    std::filesystem::permissions(folder / "c", std::filesystem::perms{0755});
  }
}

TEST_CASE("save: commit refuses an incomplete checkpoint") {
  test::temporary_folder const folder;
  pc::save_target const target{folder.path(), {0, 1}, 0};
  pc::prepare_save(target);
  std::vector<float> const values(6);
  std::vector<std::string> records;
  for (index rank = 0; rank < 2; ++rank) {
    pc::rank_writer writer(target, rank);
    writer.add<float>("w", std::vector<index>{12}, 6 * rank, values);
    records.push_back(writer.finish());
  }
  auto const commit = [&](std::vector<std::string> const& records_of_ranks,
                          std::string_view state) {
    return test::message_of([&] { pc::commit(target, records_of_ranks, state); });
  };
  CHECK(
      test::contains(commit({records[0]}, "{}"), "tensor \"w\": elements 6 to 12 are in no slice"));
  CHECK(test::contains(commit({records[0], records[0]}, "{}"), "named twice"));
  CHECK(test::contains(commit({records[0], "[]"}, "{}"), "records of rank 1: expected a JSON"));
  CHECK(test::contains(commit(records, "7"), "state must be a JSON object"));
  CHECK(test::contains(commit(records, "{"), "state: not valid JSON"));
  std::filesystem::resize_file(target.temporary() / "rank-00001-F32-000.safetensors", 65536);
  CHECK(test::contains(commit(records, "{}"), "but rank 0 sees 65536 bytes"));
  std::filesystem::remove(target.temporary() / "rank-00001-F32-000.safetensors");
  CHECK(test::contains(commit(records, "{}"), "same shared folder"));
  CHECK(pc::list_checkpoints(folder.path()).empty());
}

}  // namespace save_test
