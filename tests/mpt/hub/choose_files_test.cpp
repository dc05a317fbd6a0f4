#include <mpt/hub/choose_files.hpp>

#include <filesystem>
#include <initializer_list>
#include <mpt/data/scratch.hpp>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace choose_files_test {

using namespace mpt::hub;
using names = std::vector<std::string>;

listing repository_of(std::initializer_list<char const*> paths) {
  listing out;
  for (auto const* path : paths) out.push_back({.path = path});
  return out;
}

names paths(listing const& files) {
  names out;
  for (auto const& file : files) out.push_back(file.path);
  return out;
}

TEST_CASE("model files: safetensors are taken, and no second copy of the weights") {
  auto const files =
      repository_of({".gitattributes", "README.md", "config.json", "consolidated.safetensors",
                     "flax_model.msgpack", "generation_config.json", "merges.txt",
                     "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                     "model.safetensors.index.json", "modeling_mpt.py", "onnx/model.onnx",
                     "onnx/config.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
                     "tokenizer.json", "training_args.bin", "vocab.json"});
  CHECK(paths(model_files(files)) ==
        names{"config.json", "generation_config.json", "merges.txt",
              "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
              "model.safetensors.index.json", "tokenizer.json", "vocab.json"});
  CHECK(
      paths(model_files(files, weights::excluded)) ==
      names{"config.json", "generation_config.json", "merges.txt", "tokenizer.json", "vocab.json"});
}

TEST_CASE("model files: PyTorch's are taken where there are no safetensors, and adapters") {
  CHECK(paths(model_files(repository_of({"config.json", "pytorch_model-00001-of-00001.bin",
                                         "pytorch_model.bin.index.json", "tf_model.h5"}))) ==
        names{"config.json", "pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"});
  CHECK(paths(model_files(
            repository_of({"README.md", "adapter_config.json", "adapter_model.safetensors"}))) ==
        names{"adapter_config.json", "adapter_model.safetensors"});
}

TEST_CASE("tokenizer files: neither weights nor other texts are taken") {
  CHECK(paths(tokenizer_files(repository_of({"README.md", "config.json", "model.safetensors",
                                             "tokenizer.json", "tokenizer_config.json"}))) ==
        names{"config.json", "tokenizer.json", "tokenizer_config.json"});
}

TEST_CASE("model files: a folder that lacks one that is needed says which") {
  data_test::scratch_folder const folder;
  auto const missing = [&](weights choice) { return missing_model_file(folder.path(), choice); };
  auto const put = [&](char const* name, char const* text = "x") {
    data_test::put_file(folder / name, text);
  };
  CHECK(missing(weights::excluded) == "config.json");
  put("config.json");
  CHECK(missing(weights::excluded).empty());
  CHECK(missing(weights::included) == "model.safetensors");
  put("pytorch_model.bin.index.json",
      R"({"weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}})");
  put("pytorch_model-00001-of-00002.bin");
  CHECK(missing(weights::included) == "pytorch_model-00002-of-00002.bin");
  std::filesystem::create_symlink("../blobs/none", folder / "pytorch_model-00002-of-00002.bin");
  CHECK(missing(weights::included) == "pytorch_model-00002-of-00002.bin");
  std::filesystem::remove(folder / "pytorch_model-00002-of-00002.bin");
  put("pytorch_model-00002-of-00002.bin");
  CHECK(missing(weights::included).empty());
  put("model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00001.safetensors"}})");
  CHECK(missing(weights::included) == "model-00001-of-00001.safetensors");
  put("model.safetensors");
  CHECK(missing(weights::included).empty());
  std::filesystem::remove(folder / "config.json");
  put("adapter_config.json");
  CHECK(missing(weights::included) == "adapter_model.safetensors");
  put("adapter_model.bin");
  CHECK(missing(weights::included).empty());
}

}  // namespace choose_files_test
