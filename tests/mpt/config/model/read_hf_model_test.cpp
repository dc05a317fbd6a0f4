// Tests of reading a model from a Hugging Face folder with overrides of the YAML.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_hf_model.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/yaml/document.hpp>
#include <nlohmann/json.hpp>
#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>

namespace read_hf_model_test {

struct model_folders {
  model_folders() {
    std::filesystem::create_directories(folder / "mpt");
    std::filesystem::create_directories(folder / "other");
    std::filesystem::create_directories(folder / "empty");
    model.d_model = 32;
    model.n_heads = 4;
    model.n_layers = 3;
    model.vocab_size = 96;
    model.max_seq_len = 16;
    model = mpt::hub_form(model);
    model.vocab_size = 96;
    parallel::replace_text_file(folder / "mpt" / "config.json",
                                mpt::to_hf_json(model, "bfloat16").dump());
    parallel::replace_text_file(folder / "other" / "config.json", R"({"model_type": "opt"})");
  }

  [[nodiscard]] mpt::hf_causal_lm read(std::string const& keys,
                                       mpt::hub_mirrors const& mirrors = {}) {
    auto const document = mpt::make_document("{name: hf_causal_lm, " + keys + "}", "f.yaml");
    mpt::config_reader reader(document, "model", report);
    static_cast<void>(reader.get<std::string>("name", ""));
    auto out = mpt::read_hf_causal_lm(reader, mirrors);
    reader.finish();
    return out;
  }
  [[nodiscard]] std::string path(char const* name) const { return (folder / name).string(); }

  test::temporary_folder folder;
  mpt::model_config model;
  mpt::config_report report;
};

TEST_CASE("hf_causal_lm: the model is that of the folder") {
  model_folders folders;
  auto const found = folders.read("pretrained_model_name_or_path: " + folders.path("mpt") +
                                  ", pretrained: true, init_device: mixed, use_auth_token: false");
  CHECK(found.model == folders.model);
  CHECK(found.pretrained);
  CHECK(found.folder == folders.path("mpt"));
  auto const mirrored = folders.read("pretrained_model_name_or_path: mosaicml/x, pretrained: false",
                                     {{"mosaicml/x", folders.path("mpt")}});
  CHECK(mirrored.model == folders.model);
  CHECK(!mirrored.pretrained);
}

TEST_CASE("hf_causal_lm: config_overrides merge into the folder's settings key by key") {
  model_folders folders;
  auto const found = folders.read(
      "pretrained_model_name_or_path: " + folders.path("mpt") +
      ", config_overrides: {max_seq_len: 64, resid_pdrop: 0.1, attn_config: {attn_impl: "
      "flash, attn_uses_sequence_id: true}}");
  auto expected = folders.model;
  expected.max_seq_len = 64;
  expected.resid_pdrop = 0.1;
  expected.attn.attn_uses_sequence_id = true;
  CHECK(found.model == expected);
}

TEST_CASE("hf_causal_lm: a model of another family, its fields overridden by their names there") {
  model_folders folders;
  parallel::replace_text_file(
      folders.folder / "other" / "config.json",
      R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64})");
  auto const name = "pretrained_model_name_or_path: " + folders.path("other");
  auto const read = folders.read(name + ", config_overrides: {n_layer: 3, attn_pdrop: 0.0}");
  CHECK(read.model.family == "gpt2");
  CHECK(read.model.n_layers == 3);
  CHECK(read.model.d_model == 32);
  CHECK(read.model.attn.attn_pdrop == 0);
  CHECK(test::contains(test::message_of([&] {
                         static_cast<void>(
                             folders.read(name + ", config_overrides: {n_layers: 3}"));
                       }),
                       "config.json with model.config_overrides (f.yaml:1:"));
}

TEST_CASE("hf_causal_lm: each invalid setting gives one message") {
  model_folders folders;
  auto const mpt = "pretrained_model_name_or_path: " + folders.path("mpt");
  std::vector<std::pair<std::string, std::string>> const cases{
      {"pretrained_model_name_or_path: " + folders.path("other"),
       "f.yaml:1:53: model.pretrained_model_name_or_path: the model in '" + folders.path("other") +
           "' is of type \"opt\"; the families that are trained are " + mpt::family_names()},
      {"pretrained_model_name_or_path: " + folders.path("empty"),
       "f.yaml:1:53: model.pretrained_model_name_or_path: '" + folders.path("empty") +
           "' holds no config.json; give a Hugging Face folder of a model"},
      {"config_overrides: {n_layer: 2}, " + mpt,
       "f.yaml:1:41: model.config_overrides.n_layer: unknown key; did you mean "
       "'model.config_overrides.n_layers'?"},
      {"config_overrides: {attn_config: {alibi: maybe}}, " + mpt,
       "f.yaml:1:62: model.config_overrides.attn_config.alibi: expected true or false, found "
       "'maybe'"},
      {"config_overrides: {n_heads: 5}, " + mpt,
       "f.yaml:1:40: model.config_overrides.d_model 32 must be divisible by n_heads 5"},
      {"load_in_8bit: true, " + mpt,
       "f.yaml:1:36: model.load_in_8bit: 'true' is not yet supported; use false"},
      {"d_model: 3, " + mpt,
       "f.yaml:1:22: model.d_model: unknown key; did you mean 'model.config_overrides.d_model'?"},
  };
  for (auto const& example : cases)
    CHECK(test::message_of([&] { static_cast<void>(folders.read(example.first)); }) ==
          example.second);
}

}  // namespace read_hf_model_test
