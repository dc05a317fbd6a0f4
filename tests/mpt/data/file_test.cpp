#include <doctest/doctest.h>

#include <filesystem>
#include <mpt/data/file.hpp>
#include <mpt/data/scratch.hpp>
#include <string>

TEST_CASE("a written file is whole, replaces the old one and leaves no temporary file") {
  data_test::scratch_folder const folder;
  mpt::data::write_file(folder / "x", "first");
  mpt::data::write_file(folder / "x", std::string(100000, 'y'));
  CHECK(data_test::get_folder(folder.path()).size() == 1);
  CHECK(mpt::data::read_file(folder / "x", 1 << 20) == std::string(100000, 'y'));
}

TEST_CASE("reading beyond the end of a file is an error that says where it ended") {
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "short", "12345");
  mpt::data::input_file const file(folder / "short");
  char out[8];
  CHECK(file.read_some(3, out, 8) == 2);
  auto const message = data_test::message_of([&] { file.read(3, out, 4, "the header"); });
  CHECK(data_test::contains(message, "short: ends at byte 5 inside the header"));
  CHECK(data_test::contains(message, "3 to 7"));
}

TEST_CASE("a file cut short while it is open is an error, not a signal") {
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "cut", std::string(8192, 'x'));
  mpt::data::input_file const file(folder / "cut");
  std::filesystem::resize_file(folder / "cut", 100);
  char out[8];
  CHECK(data_test::contains(data_test::message_of([&] { file.read(4096, out, 8, "data"); }),
                            "cut short"));
}

TEST_CASE("missing files, folders and too large files are refused by name") {
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "large", "123456");
  auto const open = [&](std::string_view name) {
    return data_test::message_of([&] { (void)mpt::data::read_file(folder / name, 5); });
  };
  CHECK(data_test::contains(open("absent"), "absent: cannot open: No such file"));
  CHECK(data_test::contains(open("large"), "large: has 6 bytes, more than the 5"));
  CHECK(data_test::contains(open(""), "not a regular file"));
}

TEST_CASE("a folder has one writer at a time") {
  data_test::scratch_folder const folder;
  {
    mpt::data::folder_lock const first(folder.path());
    auto const message =
        data_test::message_of([&] { mpt::data::folder_lock const second(folder.path()); });
    CHECK(data_test::contains(message, "another program is writing here"));
  }
  CHECK_NOTHROW(mpt::data::folder_lock(folder.path()));
}
