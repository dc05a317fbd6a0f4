#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/local/checked_copy.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace checked_copy_test {
namespace pc = parallel::checkpoint;
namespace fs = std::filesystem;

struct one_file {
  one_file() {
    test::save_checkpoint(folder.path(), 4, 2);
    content = pc::read_manifest(folder / "ep0-ba4");
  }
  [[nodiscard]] std::string copy() const {
    return test::message_of(
        [&] { pc::copy_checked(from, to, pc::contents_by_file(content.slices).at(name)); });
  }
  test::temporary_folder folder;
  std::string name = "rank-00001-F32-000.safetensors";
  fs::path from = folder / "ep0-ba4" / name;
  fs::path to = folder / "copy";
  pc::manifest content;
};

TEST_CASE("checked copy: an intact file is copied byte by byte") {
  one_file const one;
  CHECK(one.copy().empty());
  CHECK(test::read_all(one.to) == test::read_all(one.from));
}

TEST_CASE(
    "checked copy: damage of any slice is reported with tensor and file, and leaves no copy") {
  one_file const one;
  auto const sound = test::read_all(one.from);
  auto const contents = pc::contents_by_file(one.content.slices);
  for (auto const& [tensor, slice] : contents.at(one.name).slices)
    for (auto const offset : {slice->offset, slice->offset + slice->bytes - 1}) {
      auto damaged = sound;
      damaged[offset] ^= 1;
      test::write_all(one.from, damaged);
      auto const message = one.copy();
      CHECK(test::contains(message, one.from.native() + ": elements "));
      CHECK(test::contains(message, parallel::concat("of tensor \"", tensor, "\"")));
      CHECK_FALSE(fs::exists(one.to));
    }
}

TEST_CASE("checked copy: damage of the header is reported if its checksum is recorded") {
  one_file one;
  auto damaged = test::read_all(one.from);
  damaged[100] ^= 1;
  test::write_all(one.from, damaged);
  CHECK(test::contains(one.copy(),
                       one.from.native() + ": its header (the first 65536 bytes) is damaged"));
  CHECK_FALSE(fs::exists(one.to));
  one.content.slices.headers.clear();  // as in a checkpoint of an earlier version
  CHECK(one.copy().empty());
}

TEST_CASE("checked copy: a wrong size, a missing source and an existing target are errors") {
  one_file const one;
  fs::resize_file(one.from, fs::file_size(one.from) - 1);
  CHECK(test::contains(one.copy(), "it is cut short or damaged"));
  fs::remove(one.from);
  CHECK(test::contains(one.copy(), "cannot open"));
  CHECK_FALSE(fs::exists(one.to));
  test::save_checkpoint(one.folder.path(), 4, 2);
  test::write_all(one.to, "mine");
  CHECK(test::contains(one.copy(), "cannot create"));
  CHECK(test::read_all(one.to) == "mine");
}

TEST_CASE("checked copy: an impossible record of slices is refused") {
  one_file one;
  auto& slices = one.content.slices.tensors.at("w#exp_avg").slices;
  slices.back().offset -= 4;
  CHECK(test::contains(one.copy(), "overlap others or the end of the file"));
  slices.back().offset += std::uint64_t{1} << 40;
  CHECK(test::contains(one.copy(), "overlap others or the end of the file"));
  CHECK_FALSE(fs::exists(one.to));
}

TEST_CASE("checked copy: errors tell whether the source or the copy caused them") {
  one_file const one;
  auto const contents = pc::contents_by_file(one.content.slices).at(one.name);
  fs::resize_file(one.from, fs::file_size(one.from) - 1);
  CHECK_THROWS_AS(pc::copy_checked(one.from, one.to, contents), pc::unusable_source);
  fs::remove(one.from);
  CHECK_THROWS_AS(pc::copy_checked(one.from, one.to, contents), pc::unusable_source);
  test::save_checkpoint(one.folder.path(), 4, 2);
  try {
    pc::copy_checked(one.from, one.folder / "nowhere" / "copy", contents);
    FAIL("copied into a folder that is not there");
  } catch (pc::unusable_source const& problem) {
    FAIL(problem.what());
  } catch (parallel::error const& problem) {
    CHECK(test::contains(problem.what(), "cannot create"));
  }
}

}  // namespace checked_copy_test
