#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/find_files.hpp>
#include <support/text_cases.hpp>

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
  CHECK(
      tree_files({.name = set_folder, .split = "mine", .data_files = {{"mine", {"**/*2.csv"}}}}) ==
      names{"sub/b2.csv"});
  auto const refusal =
      "hf_kwargs.name \"en\" is a configuration of the README.md of a set; leave it out where "
      "data_dir, data_files or a format says which files are read";
  CHECK(tree_files.error(
            {.name = "json", .subset = "en", .split = "train", .data_dir = set_folder}) == refusal);
  CHECK(tree_files.error(
            {.name = set_folder, .subset = "en", .split = "train", .data_dir = "sub"}) == refusal);
}

TEST_CASE("find_files: wildcards find the files of datasets, in its order") {
  data_test::scratch_folder const folder;
  for (std::string const name :
       {"y", "x/a", "x/s/c", "x/s/b", "x/s/c.v2", "x-y/d", "x/.h/e", "x/__p/f", "x/.g",
        "data/train/1", "data/en/train/2", "data/en/train/10", "data/test_1", "data/Train",
        "sp ace", "br[1]"})
    data_test::put_file(folder / (name + ".jsonl"), "x");
  auto const found = [&](std::string const& base, std::string const& pattern) {
    std::string files;
    for (auto const& file : mpt::finetune::find_files(
             {.name = base, .split = "train", .data_files = {{"train", {pattern}}}}))
      files += (files.empty() ? "" : ", ") + std::filesystem::relative(file, base).native();
    return files;
  };
  for (auto const& example : test::text_cases("mpt/finetune/patterns.txt", "patterns"))
    CHECK_MESSAGE(found(folder.path().native(), example.text) == example.expected, example.text);
  auto const named_like_a_pattern = folder / "set[1]*";
  data_test::put_file(named_like_a_pattern / "a.jsonl", "x");
  CHECK(found(named_like_a_pattern.native(), "*.jsonl") == "a.jsonl");
  for (char const* const pattern : {"x**", "x/**.jsonl", "**x/*.jsonl"})
    CHECK(data_test::message_of([&] { (void)found(folder.path().native(), pattern); }) ==
          std::string("data_files: ") + pattern +
              ": ** stands for folders, alone between slashes, as in **/*.jsonl");
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

// The expected files are those that Hugging Face datasets 5.2.0 reads from the same folders.

namespace dataset_card_test {

using names = std::vector<std::string>;

/// A folder with some files and this README.md.
struct tree {
  data_test::scratch_folder folder;

  explicit tree(std::string const& readme) {
    for (auto const* file : {"a.jsonl", "b.jsonl", "c.jsonl", "sub/d.jsonl", "sub/e.jsonl", "x.csv",
                             "train.jsonl", "two/f.jsonl", "two/test.jsonl"})
      data_test::put_file(folder / file, "x");
    data_test::put_file(folder / "README.md", readme);
  }
  [[nodiscard]] names operator()(std::string const& split = "train") const {
    names out;
    for (auto const& file :
         mpt::finetune::find_files({.name = folder.path().native(), .split = split}))
      out.push_back(std::filesystem::relative(file, folder.path()).native());
    return out;
  }
  [[nodiscard]] std::string error(std::string const& split = "train") const {
    auto const message = data_test::message_of([&] { (void)(*this)(split); });
    return message.substr(std::min(message.size(), folder.path().native().size() + 1));
  }
};

std::string card(std::string const& configs) {
  return "---\nlicense: mit\nconfigs:\n" + configs + "dataset_info:\n- {a: [1}\n---\n# A set\n";
}

}  // namespace dataset_card_test

TEST_CASE("dataset card: the files that configs lists for a split are read") {
  using namespace dataset_card_test;
  tree const by_split(
      card("- config_name: default\n  data_files:\n  - split: train\n    path: \"sub/*\"\n"
           "  - split: test\n    path: [c.jsonl, a.jsonl]\n"));
  CHECK(by_split() == names{"sub/d.jsonl", "sub/e.jsonl"});
  CHECK(by_split("test") == names{"c.jsonl", "a.jsonl"});
  CHECK(by_split.error("dev") ==
        "README.md: its configuration default has no split \"dev\"; it has test, train");
  CHECK(tree(card("- config_name: main\n  data_files: \"?.*\"\n"))() ==
        names{"a.jsonl", "b.jsonl", "c.jsonl"});  // of one format
  CHECK(tree(card("- config_name: main\n  data_files:\n  - c.jsonl\n  - a.jsonl\n"))() ==
        names{"c.jsonl", "a.jsonl"});
  CHECK(tree(card("- config_name: one\n  data_dir: sub\n- config_name: two\n  data_dir: two\n"
                  "  default: true\n"))("test") == names{"two/test.jsonl"});
  CHECK(tree("---\r\nconfigs:\r\n- config_name: x\r\n  data_files: b.jsonl\r\n---\r\n")() ==
        names{"b.jsonl"});
}

TEST_CASE("dataset card: without configs in the header the names of files decide") {
  using namespace dataset_card_test;
  for (auto const* text : {"{}", "", "# A set\n---\nconfigs:\n- config_name: x\n---\n",
                           "---\nlicense: mit\n---\nconfigs:\n- x\n", "---\nmy_configs: 3\n---\n"})
    CHECK(tree(text)() == names{"train.jsonl"});
}

TEST_CASE("dataset card: a path that leads out of the folder is refused") {
  using namespace dataset_card_test;
  for (std::string const path : {"/etc/hosts", "../other/x.jsonl", "sub/../../x.jsonl"})
    CHECK(tree(card("- config_name: x\n  data_files: " + path + "\n")).error() ==
          "README.md: names \"" + path + "\", which leads out of its folder");
  CHECK(tree(card("- config_name: x\n  data_dir: ../other\n")).error() ==
        "README.md: names \"../other\", which leads out of its folder");
  CHECK(tree(card("- config_name: x\n  data_files: sub/../b.jsonl\n"))() == names{"b.jsonl"});
}

TEST_CASE("dataset card: a header without usable files is an error with advice") {
  using namespace dataset_card_test;
  CHECK(tree(card("- config_name: one\n  data_files: a.jsonl\n- config_name: two\n  data_files: "
                  "b.jsonl\n"))
            .error() ==
        "README.md: has the configurations one, two, none of which is the default; name one "
        "with hf_kwargs.name (for prepare: --data_subset), or its files with hf_kwargs.data_files");
  CHECK(tree(card("- config_name: x\n  data_files: no.jsonl\n")).error() ==
        "no.jsonl: not a file; README.md names it");
  CHECK(tree(card("- config_name: x\n  data_files: no*.jsonl\n")).error() ==
        "no*.jsonl: no data file is named so; README.md asks for it");
  CHECK(tree(card("- data_files: a.jsonl\n")).error() ==
        "README.md:4:3: expected config_name in each of configs");
  CHECK(tree(card("- config_name: x\n  data_files:\n  - split: train\n")).error() ==
        "README.md:6:5: expected {split: NAME, path: PATH} in data_files");
  CHECK(tree("---\nconfigs: x\n---\n").error() ==
        "README.md:2:10: configs: expected a list of mappings, found 'x'");
}

TEST_CASE("dataset card: a subset's files and splits are those of the configuration of its name") {
  using namespace dataset_card_test;
  tree const set(
      card("- config_name: en\n  data_files:\n  - split: train\n    path: sub/*\n"
           "  - split: validation\n    path: c.jsonl\n"
           "- config_name: two\n  data_dir: two\n"));
  auto const request = [&](std::string const& subset, std::string const& split) {
    return mpt::finetune::file_names{
        .name = set.folder.path().native(), .subset = subset, .split = split};
  };
  CHECK(mpt::finetune::find_files(request("en", "train")) ==
        std::vector{set.folder / "sub/d.jsonl", set.folder / "sub/e.jsonl"});
  CHECK(mpt::finetune::split_names(request("en", "")) == names{"train", "validation"});
  CHECK(mpt::finetune::split_names(request("two", "")) == names{"test"});
  CHECK(data_test::message_of([&] { (void)mpt::finetune::split_names(request("de", "")); }) ==
        (set.folder / "README.md").native() + ": has no subset \"de\"; it has en, two");
  tree const unnamed("# No header\n");
  auto const split_names = [&](std::string const& subset) {
    return mpt::finetune::split_names({.name = unnamed.folder.path().native(), .subset = subset});
  };
  CHECK(split_names("default") == split_names(""));
  CHECK(data_test::message_of([&] { (void)split_names("en"); }) ==
        unnamed.folder.path().native() +
            ": has no subset \"en\"; its README.md names none, so leave the subset out");
}
