#include <doctest/doctest.h>

#include <mpt/train/data/stream_folder.hpp>
#include <parallel/support/files.hpp>

namespace stream_folder_test {

TEST_CASE("stream folder: a set is read in `local` if it is there, otherwise in `remote`") {
  test::temporary_folder const folder;
  std::filesystem::create_directories(folder / "local/train");
  mpt::stream_config stream{.local = folder / "local"};
  stream.split = "train";
  CHECK(mpt::stream_folder(stream) == folder / "local/train");
  stream.remote = folder / "remote";
  CHECK(mpt::stream_folder(stream) == folder / "remote/train");
  test::write_all(folder / "local/train/index.json", "{}");
  CHECK(mpt::stream_folder(stream) == folder / "local/train");
}

}  // namespace stream_folder_test
