// is_model recognises a Hugging Face or PyTorch model by the names of its files, without reading
// them.
#include <doctest/doctest.h>

#include <mpt/hf/is_model.hpp>
#include <parallel/support/files.hpp>

namespace is_model_test {

TEST_CASE("is_model: a folder with config.json and a .pt file are models, other paths are not") {
  test::temporary_folder const folder;
  std::filesystem::create_directory(folder / "empty");
  std::filesystem::create_directory(folder / "folder.pt");
  std::filesystem::create_directory(folder / "model");
  test::write_all(folder / "model/config.json", "");
  test::write_all(folder / "model/rank0.pt", "");
  CHECK(mpt::hf::is_model(folder / "model"));
  CHECK(mpt::hf::is_model(folder / "model/rank0.pt"));
  CHECK(mpt::hf::is_torch_file(folder / "model/rank0.pt"));
  CHECK(!mpt::hf::is_torch_file(folder / "model"));
  CHECK(!mpt::hf::is_model(folder / "empty"));
  CHECK(!mpt::hf::is_model(folder / "folder.pt"));
  CHECK(!mpt::hf::is_model(folder / "nowhere.pt"));
}

}  // namespace is_model_test
