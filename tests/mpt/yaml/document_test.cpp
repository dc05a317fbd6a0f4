// Tests of documents: overrides from the command line, their order, and reading files.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/yaml/document.hpp>
#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace document_test {

inline std::string problem(std::string const& text, std::vector<std::string> const& overrides) {
  return test::message_of(
      [&] { static_cast<void>(mpt::make_document(text, "f.yaml", overrides)); });
}

TEST_CASE(
    "command-line override: replaces a value, makes missing mappings, and is located on the "
    "command line") {
  std::vector<std::string> const overrides{"model.d_model=64", "new.deep.key=[1, 2]",
                                           "gone=", "model.attn={alibi: true}"};
  auto const root =
      mpt::make_document("model: {d_model: 8, n: 2, attn: {x: 1}}\ngone: 5\n", "f.yaml", overrides);
  auto const& model = *root.find("model");
  CHECK(model.find("d_model")->text == "64");
  CHECK(model.find("d_model")->location == "command line");
  CHECK(model.find("n")->text == "2");
  CHECK(root.find("new")->find("deep")->find("key")->items.size() == 2);
  CHECK(root.find("gone")->is_null());
  CHECK(model.find("attn")->find("x")->text == "1");
  CHECK(model.find("attn")->find("alibi")->text == "true");
}

TEST_CASE("command-line override: applies before interpolation and may contain references") {
  auto const root = mpt::make_document("variables: {s: 2048}\na: ${variables.s}\n", "f.yaml",
                                       std::vector<std::string>{"variables.s=128", "b=${a}"});
  CHECK(root.find("a")->text == "128");
  CHECK(root.find("b")->text == "128");
}

TEST_CASE("command-line override: list items are named by number") {
  auto const root =
      mpt::make_document("l: [{a: 1}, {a: 2}]\n", "f.yaml", std::vector<std::string>{"l.1.a=3"});
  CHECK(root.find("l")->items[1].find("a")->text == "3");
}

TEST_CASE("command-line override: a name in `mirrors` may hold dots") {
  auto const root = mpt::make_document(
      "mirrors: {org/a-0.5: /old}\n", "f.yaml",
      std::vector<std::string>{"mirrors.org/a-0.5=/new", "mirrors.gpt2=/g", "mirrors.o/b.c.d=/d"});
  auto const& mirrors = *root.find("mirrors");
  REQUIRE(mirrors.keys.size() == 3);
  CHECK(mirrors.find("org/a-0.5")->text == "/new");
  CHECK(mirrors.find("gpt2")->text == "/g");
  CHECK(mirrors.find("o/b.c.d")->text == "/d");
}

TEST_CASE("command-line override: each invalid one is an error") {
  for (auto const& [text, message] : test::text_cases("mpt/yaml/texts.txt", "invalid overrides"))
    CHECK(problem("s: text\nl: [1]\n", {text}) == message);
  CHECK(problem("[1, 2]", {}) == "f.yaml:1:1: expected `key: value` lines, found a list of 2");
}

TEST_CASE("load_document: reads a whole file and names a missing one") {
  auto const folder = std::filesystem::temp_directory_path() / "parallellm_document_test";
  std::filesystem::create_directories(folder);
  auto const path = folder / "x.yaml";
  std::ofstream(path) << "a: 1\n";
  CHECK(mpt::load_document(path).find("a")->location == "x.yaml:1:4");
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::load_document(folder / "none.yaml")),
                       ((folder / "none.yaml").string() + ": no such file").c_str(),
                       parallel::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::load_document(folder)),
                       (folder.string() + ": is a folder; expected a file").c_str(),
                       parallel::error);
  auto const loop = folder / "loop.yaml";
  std::filesystem::remove(loop);
  std::filesystem::create_symlink(loop, loop);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::load_document(loop)),
                       (loop.string() + ": cannot open: Too many levels of symbolic links").c_str(),
                       parallel::error);
  auto const pipe = folder / "pipe";
  std::filesystem::remove(pipe);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe) << "a: 2\n"; });
  CHECK(mpt::load_document(pipe).find("a")->text == "2");
  writer.join();
  CHECK_THROWS_WITH_AS(
      static_cast<void>(mpt::load_document(path, {}, {.bytes = 3})),
      (path.string() + ": more than 3 bytes, too long for a configuration").c_str(),
      parallel::error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("command-line override: an unused variable is refused and the nearest name offered") {
  constexpr char const* document =
      "variables: {data_local: d, deep: {a: 1, b: 2}, list: [1, 2], unread: 3, anchored: &n 4}\n"
      "x: ${variables.data_local}\ny: ${variables.deep.a}\nz: ${variables.list.0}\nw: *n\n";
  auto const problem_of = [&](std::string const& setting) {
    try {
      static_cast<void>(mpt::make_document(document, "f.yaml", std::vector<std::string>{setting}));
    } catch (parallel::error const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (auto const& [text, message] :
       test::text_cases("mpt/yaml/texts.txt", "overrides of variables"))
    CHECK(problem_of(text) == message);
  for (std::string const used :
       {"variables.data_local=e", "variables.deep.a=5", "variables.deep={a: 7}",
        "variables.list=[3, 4]", "variables.list.1=5", "x=${variables.unread}"})
    CHECK_MESSAGE(problem_of(used).empty(), used);
  auto const root = mpt::make_document(document, "f.yaml");
  std::string unused;
  mpt::for_each_leaf(*root.find("variables"), "variables",
                     [&](std::string const& name, mpt::config_key const& key, auto const&) {
                       if (key.is_unused) unused += name + ' ';
                     });
  CHECK(unused == "variables.deep.b variables.unread ");
}

}  // namespace document_test
