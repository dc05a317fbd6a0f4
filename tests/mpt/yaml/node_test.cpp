// config_node: members of maps, limits on its size, and descriptions of values for messages.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <mpt/yaml/node.hpp>
#include <parallel/support/files.hpp>

namespace node_test {

inline mpt::config_node scalar(std::string text) {
  mpt::config_node node;
  node.type = mpt::config_node::kind::scalar;
  node.text = std::move(text);
  return node;
}

TEST_CASE(
    "config_node: set replaces the member of the same name, and sizes above a limit are refused") {
  mpt::config_node map;
  map.type = mpt::config_node::kind::map;
  map.set({"a", "here"}, scalar("1"));
  map.set({"b", "here"}, scalar("2"));
  map.set({"a", "there"}, scalar("3"));
  REQUIRE(map.items.size() == 2);
  CHECK(map.find("a")->text == "3");
  CHECK(map.keys[0].location == "there");
  CHECK(map.find("c") == nullptr);
  mpt::config_size size;
  mpt::add_size(map, size);
  CHECK(size.values == 3);
  CHECK(size.text == 4);  // a, b, 3, 2
  CHECK_THROWS_WITH_AS(
      mpt::check_size(size, {.values = 2}, "here"),
      "here: more than 2 values, aliases and ${...} counted by what they stand for",
      parallel::error);
  CHECK_THROWS_WITH_AS(
      mpt::check_size(size, {.text = 3}, "here"),
      "here: more than 3 bytes of text, aliases and ${...} counted by what they stand for",
      parallel::error);
}

TEST_CASE("config_node: descriptions of values are safe to print") {
  CHECK(mpt::describe(mpt::config_node{}) == "nothing");
  CHECK(mpt::describe(scalar("12")) == "'12'");
  auto quoted = scalar("12");
  quoted.is_string = true;
  CHECK(mpt::describe(quoted) == "the string '12'");
  CHECK(mpt::describe(scalar("a\x1b[2J\n")) == "'a?[2J?'");
  CHECK(mpt::printable(std::string(100, 'x')) == std::string(60, 'x') + "...");
  // 59 letters and a two-byte letter across the limit: the half letter is left out
  CHECK(mpt::printable(std::string(59, 'x') + "\xc3\xa9" + "yy") == std::string(59, 'x') + "...");
}

TEST_CASE("read_small_file: a pipe's writer is waited for, and other things are refused by name") {
  test::temporary_folder const folder;
  auto const pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  {
    std::jthread const writer([&] {
      std::ofstream out(pipe);  // waits for the reader
      out << "a: " << std::flush;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      out << std::string(100'000, 'x');
    });
    CHECK(mpt::read_small_file(pipe) == "a: " + std::string(100'000, 'x'));
  }
  auto const message = [&](std::filesystem::path const& path) {
    return test::message_of([&] { static_cast<void>(mpt::read_small_file(path)); });
  };
  CHECK(message(pipe) ==
        pipe.string() +
            ": is a pipe into which nobody writes; expected a file, or a pipe with a writer");
  CHECK(message("/dev/zero") == "/dev/zero: is a device; expected a file");
  CHECK(message(folder.path()) == folder.path().string() + ": is a folder; expected a file");
  CHECK(message(folder / "none") == (folder / "none").string() + ": no such file");
}

}  // namespace node_test
