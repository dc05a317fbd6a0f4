// What each file of a checkpoint holds, by the records of its tensors.
#include <doctest/doctest.h>

#include <parallel/checkpoint/file_contents.hpp>
#include <parallel/checkpoint/manifest.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace file_contents_test {
namespace pc = parallel::checkpoint;

TEST_CASE("slices stand by their file, in the order of the file; a file without has none") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 4, 2);
  auto content = pc::read_manifest(folder / "ep0-ba4");
  content.slices.files["empty"] = 8;
  auto const all = pc::contents_by_file(content.slices);
  CHECK(all.size() == 4);
  CHECK(all.at("empty").slices.empty());
  CHECK(all.at("empty").header_bytes == 8);
  CHECK_FALSE(all.at("empty").header);
  std::string const name = "rank-00001-F32-000.safetensors";
  auto const& one = all.at(name);
  REQUIRE(one.slices.size() == 2);
  CHECK(one.slices[0].tensor == "w");
  CHECK(one.slices[1].tensor == "w#exp_avg");
  CHECK(one.slices[0].slice->offset < one.slices[1].slice->offset);
  auto const text = test::read_all(folder / "ep0-ba4" / name);
  CHECK(one.bytes == text.size());
  REQUIRE(one.header_bytes == 65536);
  CHECK(one.header == pc::checksum(std::string_view(text).substr(0, 65536)));
}

}  // namespace file_contents_test
