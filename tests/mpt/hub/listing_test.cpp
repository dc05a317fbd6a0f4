#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/data/scratch.hpp>
#include <mpt/hub/listing.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace listing_test {

using namespace mpt::hub;

nlohmann::json entry(std::string const& path) {
  return {{"type", "file"}, {"path", path}, {"size", 3U}, {"oid", std::string(40, 'a')}};
}

listing with_paths(std::vector<std::string> const& paths) {
  auto page = nlohmann::json::array();
  for (auto const& path : paths) page.push_back(entry(path));
  listing files;
  add_page(files, page, "page");
  check_paths(files, "page");
  return files;
}

std::vector<std::string> names(listing const& files) {
  std::vector<std::string> out;
  for (auto const& file : files) out.push_back(file.path);
  return out;
}

TEST_CASE("hub listing: a large file's blob is its SHA-256, a small one's git's SHA-1") {
  auto large = entry("b");
  large["lfs"] = {{"oid", std::string(64, 'b')}, {"size", 9U}, {"pointerSize", 134}};
  listing files;
  add_page(files, {entry("a"), large, {{"type", "directory"}, {"path", "../x"}}}, "page");
  REQUIRE(files.size() == 2);
  CHECK(files[0].blob() == std::string(40, 'a'));
  CHECK(files[0].content().checksum->prefix == std::string("blob 3\0", 7));
  CHECK(files[1].blob() == std::string(64, 'b'));
  CHECK(files[1].content().size == 9);
}

TEST_CASE("hub listing: paths that leave the folder, doubles and files below files are refused") {
  for (auto const* path : {"", "/a", "../a", "a/../../b", "a//b", "a/", "./a", "a\\b", "a\nb"})
    CHECK_THROWS_AS(with_paths({path}), parallel::error);
  CHECK_THROWS_AS(with_paths({"a", "b", "a"}), parallel::error);
  CHECK_THROWS_AS(with_paths({"a/b/c", "a/b"}), parallel::error);
  CHECK(names(with_paths({"a.b", "a/b", "a-b"})).size() == 3);
}

TEST_CASE("hub listing: a listing that was written into the cache is read back unchanged") {
  data_test::scratch_folder const folder;
  auto files = with_paths({"a/x", "b"});
  files[1].sha256 = std::string(64, 'c');
  files[1].xet_hash = std::string(64, 'd');
  parallel::write_text_file(folder / "tree", tree_text(files));
  auto const found = read_tree(folder / "tree");
  REQUIRE(found);
  CHECK(names(*found) == names(files));
  CHECK((*found)[1].sha256 == files[1].sha256);
  CHECK((*found)[1].xet_hash == files[1].xet_hash);
  for (auto const* text :
       {"", "{", "{\"format_version\": 2, \"files\": {}}", "[1]",
        "{\"format_version\": 1, \"files\": {\"../a\": {\"size\": 1, \"blob_id\": \"x\"}}}"}) {
    parallel::write_text_file(folder / "tree", text);
    CHECK_FALSE(read_tree(folder / "tree"));
  }
  CHECK_FALSE(read_tree(folder / "absent"));
}

TEST_CASE("hub listing: patterns choose as huggingface_hub's") {
  auto const files = with_paths({"config.json", "en/a.json.gz", "en/b.txt", "x.bin"});
  CHECK(names(matching(files, {})).size() == 4);
  CHECK(names(matching(files, {"*.json"})) == std::vector<std::string>{"config.json"});
  CHECK(names(matching(files, {"*.json*", "en/"}, {"*.txt"})) ==
        std::vector<std::string>{"config.json", "en/a.json.gz"});
  CHECK(names(matching(files, {"[cx]*"})) == std::vector<std::string>{"config.json", "x.bin"});
}

}  // namespace listing_test

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

TEST_CASE("model files: PyTorch's are taken if there are no safetensors, and adapters") {
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
