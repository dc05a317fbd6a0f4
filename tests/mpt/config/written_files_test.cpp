// Names for the metrics of a run that are also those of what the run itself writes.
#include <filesystem>

#include <doctest/doctest.h>

#include <mpt/config/written_files.hpp>
#include <parallel/support/files.hpp>

namespace written_files_test {

TEST_CASE("written files: no name of the run's own files in save_folder is another file's") {
  test::temporary_folder const folder;
  auto const saves = folder / "ckpt";
  std::filesystem::create_directories(saves / "ep0-ba4");
  std::filesystem::create_directory_symlink("ep0-ba4", saves / "latest");
  std::filesystem::create_directory_symlink(saves, folder / "link");
  std::filesystem::create_symlink(saves / "run.jsonl", folder / "metrics.jsonl");
  auto const conflict = [&](std::filesystem::path const& file) {
    return mpt::file_conflict(folder / file, saves);
  };
  for (char const* const name :
       {"ckpt/run.jsonl", "ckpt/summary.json", "ckpt/summary.json.tmp", "ckpt/plan.svg",
        "ckpt/latest", "ckpt/best", "ckpt/local.json", "ckpt/ep1-ba20", "ckpt/.lock-1",
        "ckpt/trackers/a", "ckpt/flight-rank0.ring", "ckpt/ep0-ba8.tmp-0123456789abcdef",
        "ckpt/latest/metrics.jsonl", "link/run.jsonl", "ckpt/../link/./run.jsonl", "metrics.jsonl",
        "ckpt", "ckpt/."})
    CHECK_MESSAGE(!conflict(name).empty(), name);
  for (char const* const name :
       {"ckpt/metrics.jsonl", "ckpt/logs/run.jsonl", "run.jsonl", "ckpt2/run.jsonl",
        "ckpt/ep1-ba20.jsonl", "ckpt/latest.jsonl", "latest"})
    CHECK_MESSAGE(conflict(name).empty(), name);
  CHECK(mpt::file_conflict("", saves, {""}).empty());
  CHECK(mpt::file_conflict("run.jsonl", "").empty());
}

}  // namespace written_files_test
