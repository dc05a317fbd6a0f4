// The contents of each file of a checkpoint, derived from the records of its tensors.
#include <doctest/doctest.h>

#include <parallel/checkpoint/format/file_contents.hpp>
#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace file_contents_test {
namespace pc = parallel::checkpoint;

TEST_CASE("file contents: slices are listed by file, in file order; a file may have none") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 2);
  auto content = pc::read_manifest(folder / "ep0-ba4");
  content.slices.files["empty"] = 8;
  auto const contents = pc::contents_by_file(content.slices);
  CHECK(contents.size() == 4);
  CHECK(contents.at("empty").slices.empty());
  CHECK(contents.at("empty").header_bytes == 8);
  CHECK_FALSE(contents.at("empty").header);
  std::string const name = "rank-00001-F32-000.safetensors";
  auto const& file_content = contents.at(name);
  REQUIRE(file_content.slices.size() == 2);
  CHECK(file_content.slices[0].tensor == "w");
  CHECK(file_content.slices[1].tensor == "w#exp_avg");
  CHECK(file_content.slices[0].slice->offset < file_content.slices[1].slice->offset);
  auto const text = test::read_all(folder / "ep0-ba4" / name);
  CHECK(file_content.bytes == text.size());
  REQUIRE(file_content.header_bytes == 65536);
  CHECK(file_content.header == pc::checksum(std::string_view(text).substr(0, 65536)));
}

}  // namespace file_contents_test
