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

TEST_CASE("splits: names of sharded files take precedence over names of folders") {
  using namespace split_files_test;
  tree const sharded({"data/own_split-00001-of-00002.jsonl", "data/own_split-00000-of-00002.jsonl",
                      "data/test-00000-of-00001-0123abcd.csv", "train/other.jsonl", "README.md"});
  CHECK(sharded("own_split") ==
        names{"data/own_split-00000-of-00002.jsonl", "data/own_split-00001-of-00002.jsonl"});
  CHECK(sharded("test") == names{"data/test-00000-of-00001-0123abcd.csv"});
  CHECK(sharded.error("train") ==
        ": has no split \"train\"; it has own_split, test (4 files; the first is "
        "data/own_split-00000-of-00002.jsonl)");
}

TEST_CASE("splits: names of folders take precedence over names of files, by whole words") {
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

TEST_CASE("splits: endings of files are recognised in upper and lower case") {
  using namespace split_files_test;
  CHECK(tree({"a.JSONL", "b.jsonl.GZ", "c.jsonl"})("train") ==
        names{"a.JSONL", "b.jsonl.GZ", "c.jsonl"});
  CHECK(tree({"a.CSV", "b.Csv.GZ"})("train") == names{"a.CSV", "b.Csv.GZ"});
}

// The expected files are those that Hugging Face datasets 5.2.0 reads from the same folders.
TEST_CASE("splits: files that describe the data set and special folders are left out") {
  using namespace split_files_test;
  tree const described({"part-1.jsonl", "part-2.jsonl", "part-3.jsonl", "dataset_infos.json",
                        "dataset_info.json", "dataset_dict.json", "config.json", ".gitattributes",
                        "README.md", "__pycache__/x.jsonl", "__meta.jsonl"});
  CHECK(described("train") ==
        names{"__meta.jsonl", "part-1.jsonl", "part-2.jsonl", "part-3.jsonl"});
  CHECK(tree({"dataset_infos.json"}).error("train") ==
        ": holds no data; expected files *.jsonl, *.json, *.csv or *.parquet (.gz and .zst too)");
  CHECK(tree({"state.json", "dataset_info.json", "data-00000-of-00001.arrow"})
            .error("train")
            .starts_with(": was written by save_to_disk, in Arrow's own form, which is not read"));
}

TEST_CASE("splits: of several formats the one that most files have is read") {
  using namespace split_files_test;
  CHECK(tree({"a.jsonl", "b.csv", "c.csv"})("train") == names{"b.csv", "c.csv"});
  CHECK(tree({"a.jsonl", "b.csv"})("train") == names{"a.jsonl"});
  CHECK(tree({"a.jsonl", "b.json", "c.csv"})("train") == names{"a.jsonl", "b.json"});
  CHECK(tree({"a.parquet", "a.jsonl.gz"})("train") == names{"a.parquet"});
  CHECK(tree({"train.jsonl", "test.csv"})("test") == names{"test.csv"});
}

TEST_CASE("splits: all files are for training when none names a split") {
  using namespace split_files_test;
  tree const unnamed({"a.jsonl", "b/c.csv.zst", ".d.jsonl", "notes.txt", "dolly.jsonl"});
  CHECK(unnamed("train") == names{"a.jsonl", "dolly.jsonl"});
  CHECK(unnamed("dolly") == names{"dolly.jsonl"});
  CHECK(unnamed.error("test") ==
        ": has no split \"test\"; it has train (3 files; the first is a.jsonl)");
  tree const empty({"notes.txt"});
  CHECK(empty.error("train") ==
        ": holds no data; expected files *.jsonl, *.json, *.csv or *.parquet (.gz and .zst too)");
}

TEST_CASE("splits: a part that is not there is found by the names of the others") {
  using mpt::finetune::missing_part;
  using paths = std::vector<std::filesystem::path>;
  CHECK(missing_part({}).empty());
  CHECK(missing_part({"s/train.jsonl", "s/x-of-y.jsonl", "s/1-of-2.jsonl"}).empty());
  paths const parts{"s/train-00000-of-00003.parquet", "s/train-00001-of-00003.parquet",
                    "s/train-00002-of-00003.parquet"};
  CHECK(missing_part(parts).empty());
  for (std::size_t i = 0; i < 3; ++i) {
    auto some = parts;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(missing_part(some) == parts[i].filename());
  }
  CHECK(missing_part({"s/c4-train.00001-of-00002.json.gz"}) == "c4-train.00000-of-00002.json.gz");
  CHECK(missing_part({"s/a-00000-of-00002-01ab.csv", "s/a-00001-of-00002-9fe3.csv"}).empty());
  CHECK(missing_part({"s/a-00000-of-00002-01ab.csv"}) == "a-00001-of-00002*");
  CHECK(missing_part({"s/a-00000-of-00002.csv", "t/a-00001-of-00002.csv"}) ==
        "a-00001-of-00002.csv");
}
