// Claims of runs that follow each other in one folder of checkpoints, and of runs that resume too
// late.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace folder_claim_test {
namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using namespace std::chrono_literals;

/// Counts every 2 ms, and is considered silent only after an hour, so that no living holder is.
pc::claim_options long_silence(std::string series = {}) {
  return {.series = std::move(series), .beat = 2ms, .silence = 1h};
}
/// Options under which the last holder is soon considered silent.
pc::claim_options short_silence() { return {.beat = 2ms, .silence = 15ms}; }

std::string refusal_of(fs::path const& folder, std::string const& series = {}) {
  return test::message_of([&] { pc::folder_claim const claim(folder, long_silence(series)); });
}

/// Another process, which runs a function and exits with its result.
class process {
 public:
  explicit process(std::function<int()> const& body) : id_(::fork()) {
    if (id_ == 0) ::_exit(body());
  }
  process(process const&) = delete;
  process& operator=(process const&) = delete;
  ~process() {
    if (id_ > 0) static_cast<void>(end(SIGKILL));
  }
  [[nodiscard]] pid_t id() const { return id_; }
  /// Waits until the process has stopped itself (true) or has ended (false).
  [[nodiscard]] bool stopped() {
    ::waitpid(id_, &status_, WUNTRACED);
    if (!WIFSTOPPED(status_)) id_ = -1;
    return WIFSTOPPED(status_);
  }
  /// Sends the signal; returns the exit code when the process has ended.
  int end(int signal) {
    if (id_ > 0) {
      ::kill(id_, signal);
      ::waitpid(id_, &status_, 0);
      id_ = -1;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

 private:
  pid_t id_;
  int status_ = 0;
};

void wait_for(fs::path const& file) {
  while (!fs::exists(file)) std::this_thread::sleep_for(1ms);
}

TEST_CASE("folder claim: one run writes, a second learns which; the next has the next generation") {
  test::temporary_folder const scratch;
  auto const folder = scratch.path() / "runs" / "one";  // the claim creates it
  {
    pc::folder_claim const claim(folder, long_silence());
    CHECK(claim.id().generation == 1);
    auto const message = refusal_of(folder);
    CHECK(message.find(folder.native() + ": another program is writing here (process " +
                       std::to_string(::getpid()) + " on ") == 0);
    CHECK(message.find(" UTC); wait for it, or choose another folder") != std::string::npos);
    claim.require_held();
  }
  pc::folder_claim const next(folder, long_silence());
  CHECK(next.id().generation == 2);
  CHECK(pc::claim_files::generations(folder) == std::vector<parallel::index>{2});
}

TEST_CASE(
    "folder claim: the claim of a killed process, or of an earlier start of this one, ends at "
    "once") {
  test::temporary_folder const scratch;
  process holder([&] {
    pc::folder_claim const claim(scratch.path(), long_silence("a run"));
    for (;;) ::pause();
    return 0;
  });
  wait_for(scratch / ".lock-1");
  std::this_thread::sleep_for(20ms);
  CHECK(refusal_of(scratch.path()).find("(process " + std::to_string(holder.id())) !=
        std::string::npos);
  CHECK(refusal_of(scratch.path(), "another run").find("is writing here") != std::string::npos);
  holder.end(SIGKILL);
  auto const begin = std::chrono::steady_clock::now();
  pc::folder_claim const claim(scratch.path(), long_silence("a run"));
  CHECK(claim.id().generation == 2);
  pc::folder_claim const third(scratch.path(), long_silence("a run"));
  CHECK(third.id().generation == 3);
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  CHECK(test::contains(test::message_of([&] { claim.require_held(); }), "another has taken over"));
  third.require_held();
}

TEST_CASE(
    "folder claim: an emptied or removed folder loses the claim, without naming a successor") {
  test::temporary_folder const scratch;
  auto const folder = scratch / "run";
  pc::folder_claim const claim(folder, long_silence("a run"));
  auto const aside = scratch / "aside";
  std::filesystem::rename(folder, aside);
  auto const report = [&] {
    auto const text = test::message_of([&] { claim.require_held(); });
    CHECK(test::contains(text, "run: what this run has written here is gone"));
    CHECK_FALSE(test::contains(text, "another has taken over"));
    CHECK_THROWS_AS(claim.require_held(), pc::folder_gone);
  };
  report();
  std::filesystem::create_directory(folder);
  report();
  std::filesystem::remove(folder);
  test::write_all(folder, "a file");
  report();
  std::filesystem::remove(folder);
  std::filesystem::rename(aside, folder);  // the disk is available again
  claim.require_held();
  std::filesystem::rename(folder, aside);
  pc::folder_claim const other(folder, long_silence("another run"));
  auto const message = test::message_of([&] { claim.require_held(); });
  CHECK(test::contains(message, "was replaced, and another has taken over (process "));
  CHECK_THROWS_AS(claim.require_held(), pc::claim_lost);
}

TEST_CASE("folder claim: the claim of a holder that does not count ends, on any machine") {
  for (std::string const text :
       {"", "token", "process 1 on another since long ago\n",
        "token 0123456789abcdef\nholder process 1 on another\nscope elsewhere\nnumber 1/1\n"
        "series \nbeat 00000000000007\n"}) {
    test::temporary_folder const scratch;
    std::ofstream(scratch / ".lock-41") << text;
    auto const begin = std::chrono::steady_clock::now();
    pc::folder_claim const claim(scratch.path(), short_silence());
    CHECK(claim.id().generation == 42);
    CHECK(std::chrono::steady_clock::now() - begin >= 15ms);
    CHECK_FALSE(fs::exists(scratch / ".lock-41"));
  }
}

TEST_CASE("folder claim: no claim is read or made through a link") {
  test::temporary_folder const scratch;
  std::ofstream(scratch / "notes.txt") << "mine";
  fs::create_symlink("notes.txt", scratch / ".lock-1");
  CHECK(test::contains(refusal_of(scratch.path()), "cannot read this file"));
  CHECK(fs::file_size(scratch / "notes.txt") == 4);
}

TEST_CASE("folder claim: of several runs that start at once, one holds the claim") {
  test::temporary_folder const scratch;
  std::atomic<int> holders = 0, max_holders = 0, held = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int time = 0; time < 50; ++time) try {
          pc::folder_claim const claim(scratch.path(), long_silence());
          max_holders = std::max(max_holders.load(), ++holders);
          std::this_thread::sleep_for(1ms);
          claim.require_held();
          --holders;
          ++held;
        } catch (parallel::error const&) {  // another run holds the claim
        }
    });
  threads.clear();
  CHECK(max_holders == 1);
  CHECK(held > 0);
  CHECK(pc::claim_files::generations(scratch.path()) == std::vector<parallel::index>{held.load()});
}

/// The names of whole checkpoints with the generation that saved each.
std::map<std::string, parallel::index> checkpoints_in(fs::path const& folder) {
  std::map<std::string, parallel::index> out;
  for (auto const& entry : pc::list_checkpoints(folder)) {
    CHECK_MESSAGE(entry.valid(), entry.problem);
    if (!entry.valid()) continue;
    out[entry.id.text()] = pc::read_manifest(entry.folder).writer.generation;
    CHECK(test::holds_checkpoint(entry.folder, entry.id.batch));
  }
  return out;
}

/// Stops the old holder just after it checks its claim, before action `stop_number` of its last
/// save. Another holder takes over and saves the same batch; after that save, or before it, the old
/// one continues. Returns false if the save has no such action.
bool comes_back_before_action(int stop_number, bool early) {
  test::temporary_folder const scratch;
  auto const& folder = scratch.path();
  process old([&] {
    try {
      pc::folder_claim const claim(folder, short_silence());
      int actions = 0;
      auto const check_claim = claim.guard();
      auto const step = [&](std::string_view name) {
        check_claim(name);
        if (actions++ == stop_number) ::raise(SIGSTOP);
      };
      for (parallel::index const number : {1, 2, 3})
        test::save_checkpoint(folder, number, 2, check_claim, claim.id());
      test::save_checkpoint(folder, 4, 2, step, claim.id());
      pc::prune(folder, 2, step);
      if (actions <= stop_number) return 0;
      claim.require_recent();
    } catch (pc::claim_lost const&) {
      return 7;
    } catch (parallel::error const& problem) {  // the file that it was about to rename is absent
      return test::contains(problem.what(), "No such file") ? 8 : 1;
    }
    return 2;  // the old holder has not noticed
  });
  if (!old.stopped()) return false;
  CAPTURE(stop_number);
  pc::folder_claim const claim(folder, short_silence());
  CHECK(claim.id().generation == 2);
  auto expected = checkpoints_in(folder);  // the checkpoints from which the new holder continues
  REQUIRE(expected.size() >= 2);
  for (auto const& entry : fs::directory_iterator(folder))
    CHECK(pc::name_of_leftover(entry.path().filename().native()).empty());
  auto const latest = fs::read_symlink(folder / "latest");
  int code = early ? old.end(SIGCONT) : 0;
  if (early) CHECK(fs::read_symlink(folder / "latest") == latest);
  test::save_checkpoint(folder, 4, 3, claim.guard(), claim.id());
  expected["ep0-ba4"] = 2;
  if (!early) code = old.end(SIGCONT);
  CHECK_MESSAGE((code == 7 || code == 8), "code ", code);
  auto const remaining = checkpoints_in(folder);
  for (auto const& [name, generation] : remaining) CHECK(expected[name] == generation);
  CHECK(expected.size() - remaining.size() <=
        1);  // it may have removed the one that it was replacing
  CHECK(remaining.contains("ep0-ba4"));
  CHECK(fs::read_symlink(folder / "latest") == "ep0-ba4");
  test::save_checkpoint(folder, 5, 1, claim.guard(), claim.id());  // and the new holder continues
  CHECK(pc::latest(folder).folder->filename() == "ep0-ba5");
  claim.require_held();
  return true;
}

TEST_CASE("folder claim: a replaced holder that resumes writes nothing, wherever it was stopped") {
  for (bool const early : {false, true}) {
    int actions = 0;
    while (comes_back_before_action(actions, early)) ++actions;
    CHECK(actions > 20);
  }
}

}  // namespace folder_claim_test
