#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/file.hpp>
#include <parallel/support/files.hpp>

namespace file_test {
namespace pc = parallel::checkpoint;

TEST_CASE("only plain names are file names") {
  for (auto const* good : {"a", "model-00001-of-00002.safetensors", "..a", "ä b"})
    CHECK(pc::is_plain_name(good));
  for (auto const* bad : {"", ".", "..", "a/b", "/a", "../a", "a\\b", "a\nb", "a\x7f"})
    CHECK_FALSE(pc::is_plain_name(bad));
  CHECK_FALSE(pc::is_plain_name(std::string_view("a\0b", 3)));
  CHECK_FALSE(pc::is_plain_name(std::string(256, 'a')));
}

TEST_CASE("what is written at any offset is read back") {
  test::temporary_folder const folder;
  {
    pc::output_file const out(folder / "f", pc::output_file::existing::refuse);
    out.write(4, std::as_bytes(std::span(std::string_view("world"))));
    out.write(0, std::as_bytes(std::span(std::string_view("hey "))));
    out.sync();
  }
  CHECK(pc::read_text_file(folder / "f", 9) == "hey world");
  CHECK(test::contains(
      test::message_of([&] { static_cast<void>(pc::read_text_file(folder / "f", 8)); }),
      "has 9 bytes, more than the 8 allowed"));
  CHECK(test::contains(
      test::message_of([&] { pc::output_file(folder / "f", pc::output_file::existing::refuse); }),
      "cannot create: File exists"));
}

TEST_CASE("reading past the end, of a folder, a FIFO or nothing is an error that says so") {
  test::temporary_folder const folder;
  test::write_all(folder / "f", "12345");
  pc::input_file const file(folder / "f");
  std::vector<std::byte> bytes(4);
  CHECK(test::contains(test::message_of([&] { file.read(2, bytes, "tensor t"); }),
                       "/f: ends at byte 5 inside tensor t, which needs bytes 2 to 6"));
  test::write_all(folder / "f", "1");  // cut short under the reader
  CHECK(test::contains(test::message_of([&] { file.read(1, bytes, "t"); }), "ends at byte 1"));
  CHECK(test::contains(test::message_of([&] { pc::input_file(folder / "g"); }),
                       "/g: cannot open: No such file or directory"));
  CHECK(test::contains(test::message_of([&] { pc::input_file(folder.path()); }),
                       "not a regular file"));
  REQUIRE(::mkfifo((folder / "p").c_str(), 0600) == 0);
  CHECK(test::contains(test::message_of([&] { pc::input_file(folder / "p"); }),
                       "not a regular file"));
}

TEST_CASE("a failing step stops the writing before its action") {
  test::temporary_folder const folder;
  std::vector<std::string> steps;
  pc::write_text_file(folder / "f", "x", [&](auto step) { steps.emplace_back(step); });
  CHECK(steps == std::vector<std::string>{"create file", "write file", "flush file"});
  auto const stop = [](std::string_view) { parallel::fail("stopped"); };
  CHECK(test::message_of([&] { pc::write_text_file(folder / "g", "x", stop); }) == "stopped");
  CHECK_FALSE(std::filesystem::exists(folder / "g"));
}

}  // namespace file_test
