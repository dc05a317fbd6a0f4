// What a loss of power finds: every byte of a checkpoint is on disk before it gets its name, and
// the name before anything relies on it. The system's own fsync is watched.
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace save_durability_test {

/// Where this thread's calls of fsync are written down; null: nowhere.
thread_local std::vector<std::string>* flushed = nullptr;

std::string lines(std::vector<std::string> const& all) {
  std::string out;
  for (auto const& line : all) out += line + "\n";
  return out;
}

/// The file or folder behind a descriptor.
std::string path_of(int file) {
  return std::filesystem::read_symlink(parallel::concat("/proc/self/fd/", file));
}

}  // namespace save_durability_test

/// In the C library's place in this program: does what it does, and writes down for whom.
extern "C" int fsync(int file) {
  int const result = static_cast<int>(::syscall(SYS_fsync, file));
  if (result == 0 && save_durability_test::flushed != nullptr)
    save_durability_test::flushed->push_back("flushed " + save_durability_test::path_of(file));
  return result;
}

namespace save_durability_test {

TEST_CASE("files are flushed after their last write, folders before and after they are renamed") {
  test::temporary_folder const folder;
  auto const root = std::filesystem::canonical(folder.path());
  std::vector<std::string> log;
  flushed = &log;
  test::save_checkpoint(root, 4, 2, [&](std::string_view step) {
    if (step.starts_with("write ") || step.starts_with("rename "))
      if (log.empty() || log.back() != step) log.emplace_back(step);  // slices as one
  });
  flushed = nullptr;
  std::string const place = "flushed " + (root / "ep0-ba4.tmp-0000000000000004").native();
  std::string const parent = "flushed " + root.native();
  CHECK(lines(log) ==
        lines({"write slice", "write header", place + "/rank-00000-F32-000.safetensors",
               "write header", place + "/rank-00000-I64-000.safetensors", "write slice",
               "write header", place + "/rank-00001-F32-000.safetensors", "write file",
               place + "/manifest.json", place, "rename folder", parent, "rename link", parent}));
}

}  // namespace save_durability_test
