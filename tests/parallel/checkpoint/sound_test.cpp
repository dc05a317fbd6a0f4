#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/sound.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace sound_test {
namespace pc = parallel::checkpoint;
namespace fs = std::filesystem;
using parallel::index;

/// Changes the last byte of a file of this checkpoint, which lies in a slice.
void damage(fs::path const& folder, std::string const& file = "rank-00001-F32-000.safetensors") {
  auto content = test::read_all(folder / file);
  content.back() ^= 1;
  test::write_all(folder / file, content);
}

struct outcome {
  fs::path folder;
  std::string note;
  std::string error;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// The finding of `ranks` ranks, which is equal on all.
outcome found(fs::path const& folder, pc::if_damaged action, int ranks) {
  std::vector<outcome> outcomes(static_cast<std::size_t>(ranks));
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::stream exchanges;
    auto& own_outcome = outcomes[static_cast<std::size_t>(comm.rank())];
    own_outcome.error = test::message_of([&] {
      auto const sound = pc::find_sound(comm, exchanges, folder, action);
      own_outcome.folder = sound.reader.folder();
      own_outcome.note = sound.note;
    });
  });
  for (auto const& one : outcomes) CHECK(one == outcomes.front());
  return outcomes.front();
}

TEST_CASE("sound checkpoint: an intact one is taken without a note") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 3);
  for (int const ranks : {1, 2, 5})
    for (auto const action :
         {pc::if_damaged::stop, pc::if_damaged::go_back, pc::if_damaged::set_aside})
      CHECK(found(folder / "ep0-ba4", action, ranks) == outcome{folder / "ep0-ba4", "", ""});
}

TEST_CASE("sound checkpoint: if a rank finds damage, all take the newest intact one before it") {
  test::temporary_folder const folder;
  for (index const batch : {1, 2, 3, 4, 5}) test::save_checkpoint(folder.path(), batch, 3);
  damage(folder / "ep0-ba4");
  damage(folder / "ep0-ba3", "rank-00002-F32-000.safetensors");
  test::write_all(folder / "ep0-ba2/manifest.json", "{}");
  for (int const ranks : {1, 2, 5}) {
    auto const got = found(folder / "ep0-ba4", pc::if_damaged::go_back, ranks);
    CHECK(got.folder == folder / "ep0-ba1");
    CHECK(got.error.empty());
    CHECK(test::contains(got.note, "ep0-ba4/rank-00001-F32-000.safetensors: elements "));
    CHECK(test::contains(got.note, "ep0-ba3/rank-00002-F32-000.safetensors: elements "));
    CHECK(test::contains(got.note, "are damaged"));
    CHECK(test::contains(got.note, "; went back to " + (folder / "ep0-ba1").native()));
  }
}

TEST_CASE(
    "sound checkpoint: a run that continues in a folder sets damaged ones aside if an intact one "
    "exists") {
  test::temporary_folder const folder;
  for (index const batch : {1, 2, 3}) test::save_checkpoint(folder.path(), batch, 3);
  damage(folder / "ep0-ba2");
  damage(folder / "ep0-ba3");
  auto const names = [&] {
    std::vector<std::string> out;
    for (auto const& entry : fs::directory_iterator(folder.path()))
      if (entry.is_directory() && !entry.is_symlink()) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  };
  std::vector<std::string> const names_before{"ep0-ba1", "ep0-ba2", "ep0-ba3"};
  static_cast<void>(found(folder / "ep0-ba3", pc::if_damaged::stop, 2));
  CHECK(names() == names_before);
  CHECK(found(folder / "ep0-ba3", pc::if_damaged::go_back, 2).folder == folder / "ep0-ba1");
  CHECK(names() == names_before);
  CHECK(found(folder / "ep0-ba3", pc::if_damaged::set_aside, 2).folder == folder / "ep0-ba1");
  CHECK(names() == std::vector<std::string>{"ep0-ba1", "ep0-ba2-damaged", "ep0-ba3-damaged"});
  damage(folder / "ep0-ba1");
  CHECK_FALSE(found(folder / "ep0-ba1", pc::if_damaged::set_aside, 2).error.empty());
  CHECK(names().front() == "ep0-ba1");
}

TEST_CASE("sound checkpoint: all ranks refuse with the same message if none is intact") {
  test::temporary_folder const folder;
  for (index const batch : {1, 2}) test::save_checkpoint(folder.path(), batch, 3);
  damage(folder / "ep0-ba1");
  damage(folder / "ep0-ba2");
  for (int const ranks : {1, 4}) {
    auto const named = found(folder / "ep0-ba2", pc::if_damaged::stop, ranks);
    CHECK(test::contains(named.error, "are damaged"));
    CHECK_FALSE(test::contains(named.error, "ep0-ba1"));
    auto const latest = found(folder / "ep0-ba2", pc::if_damaged::set_aside, ranks);
    CHECK(test::contains(latest.error, "ep0-ba2/rank-00001"));
    CHECK(test::contains(latest.error, "ep0-ba1/rank-00001"));
    CHECK(test::contains(latest.error, "no earlier checkpoint in " + folder.path().native()));
  }
}

TEST_CASE("sound checkpoint: a missing file is damage, and the rank that misses it is named") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 3);
  fs::remove(folder / "ep0-ba4/rank-00002-F32-000.safetensors");
  auto const got = found(folder / "ep0-ba4", pc::if_damaged::stop, 2);
  CHECK(test::contains(got.error, "rank 1: "));
  CHECK(test::contains(got.error, "rank-00002-F32-000.safetensors: cannot open"));
}

/// While this object lives, the process cannot open another file.
class open_file_limit {
 public:
  open_file_limit() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    parallel::descriptor const next(::open("/dev/null", O_RDONLY));
    auto none = before_;
    none.rlim_cur = static_cast<::rlim_t>(next.get());
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  open_file_limit(open_file_limit const&) = delete;
  open_file_limit& operator=(open_file_limit const&) = delete;
  ~open_file_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  ::rlimit before_ = {};
};

TEST_CASE("sound checkpoint: a file that cannot be opened is an error, and not damage") {
  test::temporary_folder const folder;
  for (index const batch : {1, 2}) test::save_checkpoint(folder.path(), batch, 3);
  auto const newest = folder / "ep0-ba2";
  for (auto const action :
       {pc::if_damaged::stop, pc::if_damaged::go_back, pc::if_damaged::set_aside}) {
    outcome got;
    {
      open_file_limit const limit;
      got = found(newest, action, 3);
    }
    CAPTURE(got.error);
    CHECK(test::contains(got.error, "rank 0: " + (newest / "manifest.json").native()));
    CHECK(test::contains(got.error,
                         "cannot open: Too many open files; raise the limit on open files (ulimit "
                         "-n); this may be temporary"));
    CHECK(fs::exists(newest));
  }
  open_file_limit const limit;
  CHECK_THROWS_AS(static_cast<void>(pc::problem_of(newest)), parallel::access_error);
  CHECK_THROWS_AS(static_cast<void>(pc::latest(folder.path())), parallel::access_error);
}

}  // namespace sound_test
