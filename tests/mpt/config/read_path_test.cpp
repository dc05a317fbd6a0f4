#include <doctest/doctest.h>

#include <mpt/config/read_path.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/yaml/document.hpp>
#include <string>

namespace read_path_test {

std::string read(std::string const& text, std::string_view key) {
  mpt::config_report report;
  auto const document = mpt::make_document(text, "f.yaml");
  mpt::config_reader reader(document, "", report);
  return mpt::detail::read_path(reader, key, "my-run");
}

std::string error(std::string const& text, std::string_view key) {
  return data_test::message_of([&] { (void)read(text, key); });
}

}  // namespace read_path_test

TEST_CASE("configured path: {run_name} is filled in") {
  CHECK(read_path_test::read("save_folder: runs/{run_name}", "save_folder") == "runs/my-run");
  CHECK(read_path_test::read("a: b", "save_folder").empty());
}

TEST_CASE("configured path: Composer's checkpoint file name is refused with advice") {
  using read_path_test::error;
  CHECK(error("load_path: runs/a/latest-rank{rank}.pt", "load_path") ==
        "f.yaml:1:12: load_path: 'runs/a/latest-rank{rank}.pt' is how Composer names its files; of "
        "a run of ours give the folder, runs/a, whose latest checkpoint is taken, and of "
        "Composer's the file of rank 0, runs/a/latest-rank0.pt");
  CHECK(error("load_path: latest-rank{rank}.pt", "load_path")
            .find("give the folder, ., whose latest") != std::string::npos);
  CHECK(error("save_folder: runs/{rank}", "save_folder") ==
        "f.yaml:1:14: save_folder: 'runs/{rank}': only {run_name} can be in braces");
}
