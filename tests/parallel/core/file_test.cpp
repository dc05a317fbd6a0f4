#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace file_test {
TEST_CASE("is_plain_name: accepts plain file names only") {
  for (auto const* good : {"a", "model-00001-of-00002.safetensors", "..a", "ä b"})
    CHECK(parallel::is_plain_name(good));
  for (auto const* bad : {"", ".", "..", "a/b", "/a", "../a", "a\\b", "a\nb", "a\x7f"})
    CHECK_FALSE(parallel::is_plain_name(bad));
  CHECK_FALSE(parallel::is_plain_name(std::string_view("a\0b", 3)));
  CHECK_FALSE(parallel::is_plain_name(std::string(256, 'a')));
}

TEST_CASE("output_file, input_file: data written at any offset is read back") {
  test::temporary_folder const folder;
  {
    parallel::output_file const out(folder / "f", parallel::output_file::existing::refuse);
    out.write(4, std::as_bytes(std::span(std::string_view("world"))));
    out.write(0, std::as_bytes(std::span(std::string_view("hey "))));
    out.sync();
  }
  CHECK(parallel::read_text_file(folder / "f", 9) == "hey world");
  CHECK(test::contains(
      test::message_of([&] { static_cast<void>(parallel::read_text_file(folder / "f", 8)); }),
      "has 9 bytes, more than the 8 allowed"));
  CHECK(test::contains(test::message_of([&] {
                         parallel::output_file(folder / "f",
                                               parallel::output_file::existing::refuse);
                       }),
                       "cannot create: File exists"));
}

TEST_CASE("output_file: a link is not followed, and a pipe not waited for") {
  test::temporary_folder const folder;
  test::write_all(folder / "target", "kept");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  std::filesystem::create_symlink(folder / "new", folder / "broken");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  using enum parallel::output_file::existing;
  for (auto const policy : {replace, keep})
    CHECK(test::contains(
        test::message_of([&] { parallel::output_file const f(folder / "link", policy); }),
        "link: is a link, and nothing is written through it"));
  CHECK(test::contains(
      test::message_of([&] { parallel::output_file const f(folder / "broken", replace); }),
      "broken: is a link"));
  CHECK(test::contains(
      test::message_of([&] { parallel::output_file const f(folder / "pipe", replace); }),
      "pipe: cannot create: No such device or address"));
  CHECK(test::read_all(folder / "target") == "kept");
  CHECK(!std::filesystem::exists(folder / "new"));
}

TEST_CASE("require_no_links: a folder below the root that is a link is named") {
  test::temporary_folder const folder;
  std::filesystem::create_directories(folder / "root/a/b");
  std::filesystem::create_directory_symlink(folder / "root", folder / "linked");
  std::filesystem::create_directory_symlink("b", folder / "root/a/c");
  parallel::files::require_no_links(folder / "root", folder / "root/file");
  parallel::files::require_no_links(folder / "root", folder / "root/a/b/new/file");
  parallel::files::require_no_links(folder / "linked",
                                    folder / "linked/a/b/file");            // the root may be one
  parallel::files::require_no_links(folder / "root", folder / "root/a/c");  // and the last name
  CHECK(test::contains(
      test::message_of(
          [&] { parallel::files::require_no_links(folder / "root", folder / "root/a/c/x/y"); }),
      "root/a/c: is a link to b, and nothing is written through links here; remove it"));
}

TEST_CASE("make_folders: the error names a broken link in the path") {
  test::temporary_folder const folder;
  std::filesystem::create_symlink("nowhere/runs", folder / "runs");
  for (auto const* name : {"runs", "runs/one"})
    CHECK(test::contains(
        test::message_of([&] { parallel::files::make_folders(folder / name); }),
        "/runs: is a link to nowhere/runs, which is not there; create that folder, mount the disk "
        "that it is on, or remove the link"));
  std::filesystem::create_directories(folder / "nowhere/runs");
  parallel::files::make_folders(folder / "runs/one");
  CHECK(std::filesystem::is_directory(folder / "nowhere/runs/one"));
}

TEST_CASE("input_file: reading past the end, a folder, a FIFO or no file is an error") {
  test::temporary_folder const folder;
  test::write_all(folder / "f", "12345");
  parallel::input_file const file(folder / "f");
  std::vector<std::byte> bytes(4);
  CHECK(test::contains(test::message_of([&] { file.read(2, bytes, "tensor t"); }),
                       "/f: ends at byte 5 inside tensor t, which needs bytes 2 to 6"));
  test::write_all(folder / "f", "1");  // cut short under the reader
  CHECK(test::contains(test::message_of([&] { file.read(1, bytes, "t"); }), "ends at byte 1"));
  CHECK(test::contains(test::message_of([&] { parallel::input_file(folder / "g"); }),
                       "/g: cannot open: No such file or directory"));
  CHECK(test::contains(test::message_of([&] { parallel::input_file(folder.path()); }),
                       "not a regular file"));
  REQUIRE(::mkfifo((folder / "p").c_str(), 0600) == 0);
  CHECK(test::contains(test::message_of([&] { parallel::input_file(folder / "p"); }),
                       "not a regular file"));
}

TEST_CASE("action_hook: an exception stops the writer before the action") {
  test::temporary_folder const folder;
  std::vector<std::string> steps;
  parallel::write_text_file(folder / "f", "x", [&](auto step) { steps.emplace_back(step); });
  CHECK(steps == std::vector<std::string>{"create file", "write file", "flush file"});
  auto const stop = [](std::string_view) { parallel::fail("stopped"); };
  CHECK(test::message_of([&] { parallel::write_text_file(folder / "g", "x", stop); }) == "stopped");
  CHECK_FALSE(std::filesystem::exists(folder / "g"));
}

TEST_CASE("replace_text_file: a writer that stops before the rename leaves the old file") {
  test::temporary_folder const folder;
  parallel::replace_text_file(folder / "x", "first");
  std::vector<std::string> steps;
  parallel::replace_text_file(folder / "x", std::string(100000, 'y'),
                              [&](auto step) { steps.emplace_back(step); });
  CHECK(parallel::read_text_file(folder / "x", 1 << 20) == std::string(100000, 'y'));
  CHECK_FALSE(parallel::files::exists(folder / "x.tmp"));
  CHECK(steps.size() == 5);
  for (auto const& last : steps) {
    if (last == "flush folder") continue;
    auto const stop = [&](std::string_view step) { parallel::require(step != last, "stopped"); };
    CHECK(test::message_of([&] { parallel::replace_text_file(folder / "x", "z", stop); }) ==
          "stopped");
    CHECK(parallel::read_text_file(folder / "x", 1 << 20) == std::string(100000, 'y'));
  }
}

TEST_CASE("replace_text_file: if the disk is full, only the old file remains") {
  test::temporary_folder const folder;
  parallel::replace_text_file(folder / "x", "first");
  {
    test::file_size_limit const ten_bytes(10);
    CHECK_THROWS_AS(parallel::replace_text_file(folder / "x", std::string(100, 'y')),
                    parallel::storage_error);
  }
  CHECK(parallel::read_text_file(folder / "x", 100) == "first");
  CHECK_FALSE(parallel::files::exists(folder / "x.tmp"));
}

TEST_CASE("input_file: read_some returns fewer bytes only at the end of the file") {
  test::temporary_folder const folder;
  test::write_all(folder / "f", "12345");
  parallel::input_file const file(folder / "f");
  std::vector<std::byte> bytes(8);
  CHECK(file.read_some(3, bytes) == 2);
  CHECK(file.read_some(5, bytes) == 0);
  CHECK(file.read_some(0, std::span(bytes).first(3)) == 3);
}

}  // namespace file_test
