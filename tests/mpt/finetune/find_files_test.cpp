#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/find_files.hpp>
#include <string>
#include <vector>

namespace find_files_test {

using mpt::finetune::file_names;
using names = std::vector<std::string>;

struct tree {
  data_test::scratch_folder folder;

  tree() {
    for (auto const* file : {"s/train.jsonl", "s/test.jsonl", "s/sub/b1.csv", "s/sub/b2.csv"})
      data_test::put_file(folder / file, "x");
    data_test::put_file(folder / "s/notes.txt", "x");
  }
  [[nodiscard]] names operator()(file_names const& wanted) const {
    names out;
    for (auto const& file : mpt::finetune::find_files(wanted))
      out.push_back(std::filesystem::relative(file, folder / "s").native());
    return out;
  }
  [[nodiscard]] std::string error(file_names const& wanted) const {
    auto message = data_test::message_of([&] { (void)(*this)(wanted); });
    auto const prefix = folder.path().native();
    for (auto at = message.find(prefix); at != message.npos; at = message.find(prefix))
      message.replace(at, prefix.size(), "F");
    return message;
  }
};

}  // namespace find_files_test

TEST_CASE("files are named by a folder, a file, or a format with a folder or files") {
  using namespace find_files_test;
  tree const at;
  auto const set = (at.folder / "s").native();
  CHECK(at({.name = set, .split = "test"}) == names{"test.jsonl"});
  CHECK(at({.name = set + "/sub/b1.csv", .split = "train"}) == names{"sub/b1.csv"});
  CHECK(at({.name = set, .split = "train", .data_dir = "sub"}) ==
        names{"sub/b1.csv", "sub/b2.csv"});
  CHECK(at({.name = "json", .split = "train", .data_dir = set}) == names{"train.jsonl"});
  CHECK(at({.name = "json",
            .split = "train",
            .data_files = {{"train", {set + "/test.jsonl", set + "/sub/b*.csv"}}}}) ==
        names{"test.jsonl", "sub/b1.csv", "sub/b2.csv"});
  CHECK(at({.name = set, .split = "mine", .data_files = {{"mine", {"**2.csv"}}}}) ==
        names{"sub/b2.csv"});
}

TEST_CASE("a file alone is of the split that its name says, else for training") {
  using namespace find_files_test;
  tree const at;
  auto const set = (at.folder / "s").native();
  for (auto const* file : {"my-dev.csv", "rows.jsonl.gz", "mine.jsonl"})
    data_test::put_file(set + "/" + file, "x");
  CHECK(at({.name = set + "/test.jsonl", .split = "test"}) == names{"test.jsonl"});
  CHECK(at({.name = set + "/my-dev.csv", .split = "validation"}) == names{"my-dev.csv"});
  CHECK(at({.name = set + "/rows.jsonl.gz", .split = "train"}) == names{"rows.jsonl.gz"});
  CHECK(at({.name = set + "/test.jsonl"}) == names{"test.jsonl"});
  CHECK(at({.name = set + "/mine.jsonl", .split = "mine"}) == names{"mine.jsonl"});
  data_test::put_file(set + "/validation/rows.jsonl", "x");
  CHECK(at({.name = set + "/validation/rows.jsonl", .split = "validation"}) ==
        names{"validation/rows.jsonl"});
  CHECK(at({.name = set + "/validation/rows.jsonl", .split = "train"}) ==
        names{"validation/rows.jsonl"});
  CHECK(at({.name = set + "/my-dev.csv", .split = "val"}) == names{"my-dev.csv"});
  CHECK(at.error({.name = set + "/rows.jsonl.gz", .split = "test"}) ==
        "F/s/rows.jsonl.gz: is of split train by its name, and split \"test\" is asked for; name a "
        "file of that split, such as test.jsonl, or set split: train");
  CHECK(at.error({.name = set + "/test.jsonl", .split = "train"}) ==
        "F/s/test.jsonl: is of split test by its name, and split \"train\" is asked for; name a "
        "file of that split, such as train.jsonl, or set split: test");
}

TEST_CASE("what is not there is an error that says what is, or what to do") {
  using namespace find_files_test;
  tree const at;
  auto const set = (at.folder / "s").native();
  CHECK(at.error({.name = set}) == "the split of \"F/s\" is not given; set split, such as train");
  CHECK(data_test::contains(at.error({.name = set, .split = "train[:10%]"}),
                            "parts and sums of splits are not supported"));
  CHECK(at.error({.name = "json", .split = "train"}) ==
        "hf_name is the format \"json\", whose files are not named; set hf_kwargs.data_dir or "
        "hf_kwargs.data_files");
  CHECK(at.error({.name = "json", .split = "train", .data_dir = set + "/no"}) ==
        "F/s/no: not a folder; hf_kwargs.data_dir names it");
  CHECK(at.error({.name = "json", .split = "dev", .data_files = {{"train", {"a"}}}}) ==
        "data_files has no split \"dev\"; it has train");
  CHECK(at.error({.name = set, .split = "a", .data_files = {{"a", {"no.jsonl"}}}}) ==
        "F/s/no.jsonl: not a file; data_files names it");
  CHECK(at.error({.name = set, .split = "a", .data_files = {{"a", {"no*.jsonl"}}}}) ==
        "F/s/no*.jsonl: no data file is named so; data_files asks for it");
  CHECK(at.error({.name = set + "/notes.txt", .split = "train"}) ==
        "F/s/notes.txt: not of a format that is read; expected .jsonl, .json, .csv or .parquet "
        "(.gz and .zst too)");
  CHECK(
      at.error({.name = "mosaicml/dolly_hhrlhf", .split = "train"}) ==
      "hf_name \"mosaicml/dolly_hhrlhf\" is no folder or file on this machine, and nothing is "
      "downloaded: get the set's files from the Hugging Face Hub, or a mirror, into a folder, and "
      "set hf_name to that folder");
  CHECK(at.error({.name = "tatsu-lab/alpaca", .split = "train"})
            .ends_with("to that folder and preprocessing_fn to \"tatsu-lab/alpaca\""));
  CHECK(at({.name = set + "/", .split = "test"}) == names{"test.jsonl"});
  CHECK(at.error({.name = set + "/", .split = "dev"}) ==
        "F/s: has no split \"dev\"; it has test, train (4 files; the first is sub/b1.csv)");
}
