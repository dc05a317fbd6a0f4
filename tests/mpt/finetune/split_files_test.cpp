#include <doctest/doctest.h>

#include <initializer_list>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/split_files.hpp>
#include <string>
#include <vector>

namespace split_files_test {

using names = std::vector<std::string>;

struct tree {
  data_test::scratch_folder folder;

  explicit tree(std::initializer_list<char const*> files) {
    for (auto const* file : files) data_test::put_file(folder / file, "x");
  }
  [[nodiscard]] names operator()(std::string const& split) const {
    names out;
    for (auto const& file : mpt::finetune::split_files(folder.path(), split))
      out.push_back(std::filesystem::relative(file, folder.path()).native());
    return out;
  }
  [[nodiscard]] std::string error(std::string const& split) const {
    auto message = data_test::message_of([&] { (void)(*this)(split); });
    return message.substr(folder.path().native().size());
  }
};

}  // namespace split_files_test

TEST_CASE("sharded files name their split, before anything else does") {
  using namespace split_files_test;
  tree const found({"data/own_split-00001-of-00002.jsonl", "data/own_split-00000-of-00002.jsonl",
                    "data/test-00000-of-00001-0123abcd.csv", "train/other.jsonl", "README.md"});
  CHECK(found("own_split") ==
        names{"data/own_split-00000-of-00002.jsonl", "data/own_split-00001-of-00002.jsonl"});
  CHECK(found("test") == names{"data/test-00000-of-00001-0123abcd.csv"});
  CHECK(found.error("train") ==
        ": has no split \"train\"; it has own_split, test (4 files; the first is "
        "data/own_split-00000-of-00002.jsonl)");
}

TEST_CASE("folders name splits before files do, by a word that stands alone") {
  using namespace split_files_test;
  tree const folders({"training/a.jsonl", "my-dev/b.jsonl.gz", "evaluation/sub/c.json",
                      "evaluation/.hidden/d.json", "train.jsonl"});
  CHECK(folders("train") == names{"training/a.jsonl"});
  CHECK(folders("validation") == names{"my-dev/b.jsonl.gz"});
  CHECK(folders("test") == names{"evaluation/sub/c.json"});
  tree const files({"train.jsonl", "train_2.jsonl", "my.val.csv", "trained.jsonl", "x1test2.json"});
  CHECK(files("train") == names{"train.jsonl", "train_2.jsonl"});
  CHECK(files("validation") == names{"my.val.csv"});
  CHECK(files("trained") == names{"trained.jsonl"});  // LLM Foundry's {split}.jsonl
  CHECK(files("test") == names{"x1test2.json"});
}

TEST_CASE("endings count in any case") {
  using namespace split_files_test;
  tree const files({"a.JSONL", "b.Csv.GZ", "c.jsonl"});
  CHECK(files("train") == names{"a.JSONL", "b.Csv.GZ", "c.jsonl"});
}

TEST_CASE("files that name no split are all for training") {
  using namespace split_files_test;
  tree const found({"a.jsonl", "b/c.csv.zst", ".d.jsonl", "notes.txt", "dolly.jsonl"});
  CHECK(found("train") == names{"a.jsonl", "b/c.csv.zst", "dolly.jsonl"});
  CHECK(found("dolly") == names{"dolly.jsonl"});
  CHECK(found.error("test") ==
        ": has no split \"test\"; it has train (3 files; the first is a.jsonl)");
  tree const empty({"notes.txt"});
  CHECK(empty.error("train") ==
        ": holds no data; expected files *.jsonl, *.json, *.csv or *.parquet (.gz and .zst too)");
}
