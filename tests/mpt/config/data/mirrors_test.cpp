#include <doctest/doctest.h>

#include <mpt/config/data/mirrors.hpp>
#include <mpt/yaml/document.hpp>

namespace mirrors_test {

mpt::hub_mirrors read(std::string const& text) {
  auto const document = mpt::make_document(text, "f.yaml");
  mpt::config_report report;
  mpt::config_reader reader(document, "", report);
  return mpt::read_mirrors(reader);
}

TEST_CASE("mirrors: a mirrored hub name gives its path, any other name itself") {
  auto const mirrors = read("mirrors: {mosaicml/mpt-7b: /models/7b, gpt2: g}");
  CHECK(mpt::mirrored_path(mirrors, "mosaicml/mpt-7b") == "/models/7b");
  CHECK(mpt::mirrored_path(mirrors, "gpt2") == "g");
  CHECK(mpt::mirrored_path(mirrors, "mosaicml/mpt-30b") == "mosaicml/mpt-30b");
  CHECK(read("a: b").empty());
}

TEST_CASE("mirrors: a mapping from names to paths, anything else is an error") {
  CHECK_THROWS_WITH_AS(
      (void)read("mirrors: x"),
      "f.yaml:1:10: mirrors: expected a mapping of names to local paths, found 'x'",
      parallel::error);
  CHECK_THROWS_WITH_AS((void)read("mirrors: {a: [b]}"),
                       "f.yaml:1:10: mirrors: expected a local path for 'a', found a list of 1",
                       parallel::error);
}

TEST_CASE("mirrors: the advice says that mosaicml's files are no longer on the hub") {
  CHECK(mpt::mirror_advice("tokenizer.name", "mosaicml/mpt-7b") ==
        "mosaicml's files are no longer on the hub, and nothing is downloaded; get a "
        "copy and give its path by tokenizer.name=PATH, or for every use of the name by "
        "mirrors.mosaicml/mpt-7b=PATH");
  CHECK(mpt::mirror_advice("k", "gpt2")
            .starts_with("names of the hub are ORG/NAME; else get a copy of it and"));
}

}  // namespace mirrors_test
