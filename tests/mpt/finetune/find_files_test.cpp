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
  [[nodiscard]] names operator()(file_names const& request) const {
    names out;
    for (auto const& file : mpt::finetune::find_files(request))
      out.push_back(std::filesystem::relative(file, folder / "s").native());
    return out;
  }
  [[nodiscard]] std::string error(file_names const& request) const {
    auto message = data_test::message_of([&] { (void)(*this)(request); });
    auto const prefix = folder.path().native();
    for (auto begin = message.find(prefix); begin != message.npos; begin = message.find(prefix))
      message.replace(begin, prefix.size(), "F");
    return message;
  }
};

}  // namespace find_files_test

TEST_CASE("find_files: a folder, a file, or a format with a folder or files names the files") {
  using namespace find_files_test;
  tree const tree_files;
  auto const set_folder = (tree_files.folder / "s").native();
  CHECK(tree_files({.name = set_folder, .split = "test"}) == names{"test.jsonl"});
  CHECK(tree_files({.name = set_folder + "/sub/b1.csv", .split = "train"}) == names{"sub/b1.csv"});
  CHECK(tree_files({.name = set_folder, .split = "train", .data_dir = "sub"}) ==
        names{"sub/b1.csv", "sub/b2.csv"});
  CHECK(tree_files({.name = "json", .split = "train", .data_dir = set_folder}) ==
        names{"train.jsonl"});
  CHECK(tree_files({.name = "json",
                    .split = "train",
                    .data_files = {{"train",
                                    {set_folder + "/test.jsonl", set_folder + "/sub/b*.csv"}}}}) ==
        names{"test.jsonl", "sub/b1.csv", "sub/b2.csv"});
  CHECK(tree_files({.name = set_folder, .split = "mine", .data_files = {{"mine", {"**2.csv"}}}}) ==
        names{"sub/b2.csv"});
  auto const refusal =
      "hf_kwargs.name \"en\" is a configuration of the README.md of a set; leave it out where "
      "data_dir, data_files or a format says which files are read";
  CHECK(tree_files.error(
            {.name = "json", .subset = "en", .split = "train", .data_dir = set_folder}) == refusal);
  CHECK(tree_files.error(
            {.name = set_folder, .subset = "en", .split = "train", .data_dir = "sub"}) == refusal);
}

TEST_CASE("find_files: a single file belongs to the split in its name, else to train") {
  using namespace find_files_test;
  tree const tree_files;
  auto const set_folder = (tree_files.folder / "s").native();
  for (auto const* file : {"my-dev.csv", "rows.jsonl.gz", "mine.jsonl"})
    data_test::put_file(set_folder + "/" + file, "x");
  CHECK(tree_files({.name = set_folder + "/test.jsonl", .split = "test"}) == names{"test.jsonl"});
  CHECK(tree_files({.name = set_folder + "/my-dev.csv", .split = "validation"}) ==
        names{"my-dev.csv"});
  CHECK(tree_files({.name = set_folder + "/rows.jsonl.gz", .split = "train"}) ==
        names{"rows.jsonl.gz"});
  CHECK(tree_files({.name = set_folder + "/test.jsonl"}) == names{"test.jsonl"});
  CHECK(tree_files({.name = set_folder + "/mine.jsonl", .split = "mine"}) == names{"mine.jsonl"});
  data_test::put_file(set_folder + "/validation/rows.jsonl", "x");
  CHECK(tree_files({.name = set_folder + "/validation/rows.jsonl", .split = "validation"}) ==
        names{"validation/rows.jsonl"});
  CHECK(tree_files({.name = set_folder + "/validation/rows.jsonl", .split = "train"}) ==
        names{"validation/rows.jsonl"});
  CHECK(tree_files({.name = set_folder + "/my-dev.csv", .split = "val"}) == names{"my-dev.csv"});
  CHECK(tree_files.error({.name = set_folder + "/rows.jsonl.gz", .split = "test"}) ==
        "F/s/rows.jsonl.gz: is of split train by its name, and split \"test\" is asked for; name a "
        "file of that split, such as test.jsonl, or set split: train");
  CHECK(tree_files.error({.name = set_folder + "/test.jsonl", .split = "train"}) ==
        "F/s/test.jsonl: is of split test by its name, and split \"train\" is asked for; name a "
        "file of that split, such as train.jsonl, or set split: test");
}

TEST_CASE("find_files: missing files are an error that lists the existing ones or gives advice") {
  using namespace find_files_test;
  tree const tree_files;
  auto const set_folder = (tree_files.folder / "s").native();
  CHECK(tree_files.error({.name = set_folder}) ==
        "the split of \"F/s\" is not given; set split, such as train");
  CHECK(tree_files.error({.name = "json", .split = "train", .data_dir = set_folder + "/no"}) ==
        "F/s/no: not a folder; hf_kwargs.data_dir names it");
  CHECK(tree_files.error({.name = "json", .split = "dev", .data_files = {{"train", {"a"}}}}) ==
        "data_files has no split \"dev\"; it has train");
  CHECK(tree_files.error({.name = set_folder, .split = "a", .data_files = {{"a", {"no.jsonl"}}}}) ==
        "F/s/no.jsonl: not a file; data_files names it");
  CHECK(
      tree_files.error({.name = set_folder, .split = "a", .data_files = {{"a", {"no*.jsonl"}}}}) ==
      "F/s/no*.jsonl: no data file is named so; data_files asks for it");
  CHECK(tree_files.error({.name = set_folder + "/notes.txt", .split = "train"}) ==
        "F/s/notes.txt: not of a format that is read; expected .jsonl, .json, .csv or .parquet "
        "(.gz and .zst too)");
  CHECK(tree_files.error({.name = "tatsu-lab/alpaca", .split = "train"})
            .ends_with("to that folder and preprocessing_fn to \"tatsu-lab/alpaca\""));
  CHECK(tree_files({.name = set_folder + "/", .split = "test"}) == names{"test.jsonl"});
  CHECK(tree_files.error({.name = set_folder + "/", .split = "dev"}) ==
        "F/s: has no split \"dev\"; it has test, train (4 files; the first is sub/b1.csv)");
}

TEST_CASE("find_files: the splits of a folder are those that its files name") {
  using namespace find_files_test;
  tree const tree_files;
  CHECK(mpt::finetune::split_names({.name = (tree_files.folder / "s").native()}) ==
        names{"test", "train"});
  CHECK(data_test::message_of([&] {
          (void)mpt::finetune::split_names({.name = (tree_files.folder / "none").native()});
        }).find("none: cannot be listed") != std::string::npos);
}
