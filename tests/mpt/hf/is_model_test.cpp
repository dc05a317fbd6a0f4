// A path is a model of another program by what lies there, whatever is in it.
#include <doctest/doctest.h>

#include <mpt/hf/is_model.hpp>
#include <parallel/support/files.hpp>

namespace is_model_test {

TEST_CASE("folders with a config.json and files of PyTorch's are models, and nothing else") {
  test::temporary_folder const here;
  std::filesystem::create_directory(here / "empty");
  std::filesystem::create_directory(here / "folder.pt");
  std::filesystem::create_directory(here / "model");
  test::write_all(here / "model/config.json", "");
  test::write_all(here / "model/rank0.pt", "");
  CHECK(mpt::hf::is_model(here / "model"));
  CHECK(mpt::hf::is_model(here / "model/rank0.pt"));
  CHECK(mpt::hf::is_torch_file(here / "model/rank0.pt"));
  CHECK(!mpt::hf::is_torch_file(here / "model"));
  CHECK(!mpt::hf::is_model(here / "empty"));
  CHECK(!mpt::hf::is_model(here / "folder.pt"));
  CHECK(!mpt::hf::is_model(here / "nowhere.pt"));
}

}  // namespace is_model_test
