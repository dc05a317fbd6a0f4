// Tensors by name from files of any program, one file or several.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/model_source.hpp>
#include <mpt/hf/weight_files.hpp>
#include <parallel/support/files.hpp>
#include <support/golden/golden_tensor.hpp>

namespace weight_files_test {

namespace fs = std::filesystem;
using mpt::hf::weight_files;

fs::path golden() { return test::golden_folder() / "torch"; }

TEST_CASE("weight files: safetensors, a pickle, shards and a Composer checkpoint hold one model") {
  weight_files const expected(golden() / "model.safetensors");
  for (auto const* const form : {"bin", "bin/pytorch_model.bin", "shards", "composer.pt"}) {
    CAPTURE(form);
    weight_files const files(golden() / form);
    for (auto const& name : expected.names()) {
      CAPTURE(name);
      CHECK(files.contains(name));
      CHECK(files.shape_of(name) == expected.shape_of(name));
      std::vector<float> a(10);
      std::vector<float> b(10);
      expected.read(name, 3, std::span(a));
      files.read(name, 3, std::span(b));
      CHECK(a == b);  // exact, since bfloat16, the type of the shards, can hold all weights
    }
    for (auto const& name : files.names())
      CHECK((expected.contains(name) || name == "lm_head.weight"));
  }
  CHECK(weight_files(golden() / "shards").type_of("transformer.norm_f.weight") ==
        parallel::checkpoint::element_type::bf16);
  CHECK(weight_files(golden() / "shards").type_name_of("transformer.norm_f.weight") ==
        "BFloat16Storage");
  CHECK(
      test::contains(test::message_of([&] { (void)weight_files(golden() / "bin").shape_of("x"); }),
                     "/bin: has no tensor \"x\""));
}

TEST_CASE("weight files: of several forms in one folder the one that transformers reads is read") {
  test::temporary_folder const folder;
  fs::copy(golden() / "shards", folder / "m");  // bfloat16; the others are float32
  auto const type = [&] { return weight_files(folder / "m").type_of("transformer.norm_f.weight"); };
  using enum parallel::checkpoint::element_type;
  CHECK(type() == bf16);
  fs::copy_file(golden() / "bin/pytorch_model.bin", folder / "m/pytorch_model.bin");
  CHECK(type() == f32);
  test::write_all(folder / "m/pytorch_model.bin.index.json", "damaged");
  CHECK(type() == f32);
  test::write_all(folder / "m/pytorch_model.bin", "damaged");
  fs::copy_file(golden() / "model.safetensors", folder / "m/model.safetensors");
  CHECK(type() == f32);
}

TEST_CASE("weight files: each form opens as a model with its configuration") {
  for (auto const* const form : {"bin", "shards", "composer.pt"}) {
    CAPTURE(form);
    mpt::model_source const source(golden() / form);
    CHECK(source.config().d_model == 16);
    CHECK(source.config().attn.clip_qkv == 2.0);
    CHECK(source.config().attn.alibi);
    CHECK(source.dtype() == (std::string(form) == "shards" ? "bfloat16" : "float32"));
    std::vector<float> block(4);  // two columns of two rows
    source.read_block("transformer.blocks.1.ffn.up_proj.weight", 3, 2, std::span(block));
    std::vector<float> row(21);
    source.read("transformer.blocks.1.ffn.up_proj.weight", 0, std::span(row));
    CHECK(block == std::vector<float>{row[3], row[4], row[19], row[20]});
  }
}

TEST_CASE("weight files: prefixes of torch.compile and DistributedDataParallel are removed") {
  test::temporary_folder const folder;
  auto const content = test::read_all(golden() / "model.safetensors");
  weight_files const expected(golden() / "model.safetensors");
  for (std::string const prefix : {"_orig_mod.", "module.", "module._orig_mod."}) {
    CAPTURE(prefix);
    auto const end = 8 + static_cast<std::size_t>(static_cast<unsigned char>(content[0])) +
                     256 * static_cast<std::size_t>(static_cast<unsigned char>(content[1]));
    auto header = nlohmann::json::parse(content.substr(8, end - 8));
    nlohmann::json wrapped;
    for (auto const& [name, value] : header.items())
      wrapped[(name == "__metadata__" ? "" : prefix) + name] = value;
    test::write_all(folder / "model.safetensors",
                    parallel::checkpoint::pack_safetensors_header(wrapped.dump(), 0, "test") +
                        content.substr(end));
    weight_files const files(folder / "model.safetensors");
    CHECK(files.names() == expected.names());
    for (auto const& name : expected.names()) {
      CHECK(files.shape_of(name) == expected.shape_of(name));
      std::vector<float> a(10);
      std::vector<float> b(10);
      expected.read(name, 3, std::span(a));
      files.read(name, 3, std::span(b));
      CHECK(a == b);
    }
  }
}

TEST_CASE("weight files: missing and exchanged shards are refused") {
  test::temporary_folder const folder;
  fs::copy(golden() / "shards", folder / "m");
  auto const problem = [&] {
    return test::message_of([&] { weight_files const files(folder / "m"); });
  };
  CHECK(problem().empty());
  auto const first = folder / "m/pytorch_model-00001-of-00005.bin";
  auto const content = test::read_all(first);
  fs::remove(first);
  CHECK(test::contains(problem(),
                       "pytorch_model-00001-of-00005.bin: does not exist; check the path"));
  test::write_all(first, content.substr(0, content.size() / 2));
  CHECK(test::contains(problem(), "is not a zip file, or is cut short"));
  fs::copy_file(folder / "m/pytorch_model-00002-of-00005.bin", first,
                fs::copy_options::overwrite_existing);
  CHECK_FALSE(problem().empty());
  test::write_all(first, content);
  auto index = nlohmann::json::parse(test::read_all(folder / "m/pytorch_model.bin.index.json"));
  auto const write = [&] {
    test::write_all(folder / "m/pytorch_model.bin.index.json", index.dump());
  };
  auto const weight_map = index["weight_map"];
  index["weight_map"].erase("transformer.norm_f.weight");
  write();
  CHECK(test::contains(problem(), " of the tensors in its files, which hold "));
  index["weight_map"] = weight_map;
  index["weight_map"]["transformer.rotary_emb.inv_freq"] = first.filename().string();
  write();
  CHECK(problem().empty());
  index["weight_map"]["transformer.wte.weight"] = "../x.bin";
  write();
  CHECK(test::contains(problem(), "must be a plain file name"));
}

TEST_CASE("weight files: a pickle without a configuration is refused as a model") {
  CHECK(test::contains(
      test::message_of([&] { mpt::model_source const source(golden() / "bin/pytorch_model.bin"); }),
      "does not say which model it holds"));
}

}  // namespace weight_files_test
