// Converts folders as LLM Foundry writes them (with the golden models' tensors) to checkpoints and
// back.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/import.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/checkpoint/format/tensor_folder.hpp>
#include <parallel/support/files.hpp>

#include "support/golden/golden_tensor.hpp"

namespace hf_convert_test {

namespace hf = mpt::hf;
using parallel::index;

/// A golden model's configuration and parameters.
struct golden_model {
  parallel::checkpoint::safetensors_file file;
  nlohmann::json config;
  std::vector<hf::named_shape> tensors;

  explicit golden_model(std::string const& name)
      : file(test::golden_folder() / ("mpt/" + name + ".safetensors")) {
    for (auto const& [key, value] : file.metadata())
      if (key == "config") config = nlohmann::json::parse(value);
    for (auto const& tensor : file.tensors())
      if (tensor.name.starts_with("param/"))
        tensors.push_back({tensor.name.substr(6), tensor.extents});
  }

  [[nodiscard]] std::vector<float> values(std::string const& name) const {
    return test::golden_tensor<float>(file, "param/" + name);
  }

  void write(std::filesystem::path const& folder) const {
    hf::hf_export(folder, tensors,
                  [&](std::string const& name, index begin, std::span<float> out) {
                    file.read("param/" + name, begin, out);
                  },
                  {.type = hf::precision::fp32, .config = config});
  }
};

std::vector<float> values(mpt::model_source const& source, std::string const& name, index size) {
  std::vector<float> out(static_cast<std::size_t>(size));
  source.read(name, 0, std::span(out));
  return out;
}

TEST_CASE("convert: a folder of LLM Foundry keeps its tensors through a checkpoint and an export") {
  for (std::string const name : {"c_fused", "c_untied", "c_modern", "d_layers", "d_all"}) {
    CAPTURE(name);
    test::temporary_folder const folder;
    golden_model const golden(name);
    golden.write(folder / "foundry");
    auto const checkpoint =
        mpt::import_hugging_face(mpt::model_source(folder / "foundry"), folder / "run", {});
    mpt::model_source const trained(checkpoint);
    CHECK(trained.config() == mpt::from_hf_json(golden.config, name).model);
    mpt::export_hugging_face(trained, folder / "out", {});

    mpt::model_source const exported(folder / "out");
    CHECK(exported.config() == trained.config());
    auto const shapes = mpt::hf::shapes_of(exported.config());
    CHECK(shapes.size() == golden.tensors.size());
    hf::hf_import(folder / "out").require_tensors(shapes);  // plain names, and no others
    bool const fused = name == "c_fused";
    for (auto const& shape : shapes) {
      auto const& [parameter, extents] = shape;
      CAPTURE(shape.name);
      auto const expected = golden.values(fused ? hf::fused_name(parameter) : parameter);
      CHECK(values(exported, parameter, std::ssize(expected)) == expected);
    }
    CHECK(hf::hf_import(folder / "out").tensors().contains("lm_head.weight") ==
          !trained.config().tie_word_embeddings);
  }
}

/// The stored bytes of every tensor of a folder.
std::map<std::string, std::vector<std::byte>> bytes_of(std::filesystem::path const& folder) {
  parallel::checkpoint::tensor_folder const tensors(folder);
  std::map<std::string, std::vector<std::byte>> out;
  for (auto const& name : tensors.names()) {
    auto const& entry = tensors.at(name);
    auto& bytes = out[name];
    bytes.resize(static_cast<std::size_t>(entry.end - entry.begin));
    tensors.read_bytes(name, 0, entry.size(), bytes);
  }
  return out;
}

TEST_CASE("convert: weights imported and exported in one type keep their bytes, pickled or not") {
  test::temporary_folder const folder;
  auto const golden = test::golden_folder() / "torch";
  auto const round_trip = [&](std::filesystem::path const& from,
                              mpt::convert_options const& options) {
    std::filesystem::remove_all(folder / "run");
    std::filesystem::remove_all(folder / "out");
    mpt::import_hugging_face(mpt::model_source(from), folder / "run", options);
    mpt::export_hugging_face(mpt::model_source(folder / "run"), folder / "out", options);
    return bytes_of(folder / "out");
  };
  auto const expected = bytes_of(golden / "model.safetensors");
  CHECK(expected.size() > 10);
  CHECK(round_trip(golden / "bin", {}) == expected);
  CHECK(round_trip(golden / "composer.pt", {}) == expected);
  for (std::string const dtype : {"bfloat16", "float16"}) {
    auto const converted = round_trip(golden / "shards", {.dtype = dtype, .max_shard_bytes = 4000});
    CHECK(converted.at("transformer.wte.weight").size() == 2 * 29 * 16);
    CHECK(std::filesystem::exists(folder / "out/model.safetensors.index.json"));
    std::filesystem::rename(folder / "out", folder / dtype);
    CHECK(round_trip(folder / dtype, {}) == converted);
  }
  CHECK(round_trip(folder / "bfloat16", {.dtype = "float32"}) == expected);
}

/// The ids {eos, bos} in config.json, then in generation_config.json, of an export with this
/// tokenizer.
nlohmann::json roles_in_export(mpt::model_source const& source, std::filesystem::path const& out,
                               std::string const& tokenizer) {
  mpt::export_hugging_face(
      source, out, {.tokenizer = tokenizer, .existing = parallel::checkpoint::if_exists::replace});
  auto roles = nlohmann::json::array();
  for (char const* const name : {"config.json", "generation_config.json"}) {
    auto const json = nlohmann::json::parse(test::read_all(out / name));
    for (char const* const key : {"eos_token_id", "bos_token_id"})
      roles.push_back(json.value(key, nlohmann::json()));
  }
  return roles;
}

/// A model whose vocabulary has `vocabulary` tokens.
std::filesystem::path write_model(std::filesystem::path const& folder, std::int64_t vocabulary,
                                  nlohmann::json const& ends = nullptr) {
  mpt::model_config model;
  model.d_model = 8;
  model.n_heads = 2;
  model.n_layers = 1;
  model.vocab_size = vocabulary;
  model.max_seq_len = 4;
  auto json = mpt::to_hf_json(model, "float32");
  if (!ends.is_null()) json["eos_token_id"] = ends;
  hf::hf_export(
      folder, mpt::hf::shapes_of(model),
      [](std::string const&, index, std::span<float> out) { std::ranges::fill(out, 0.5F); },
      {.type = hf::precision::fp32, .config = json});
  return folder;
}

TEST_CASE("convert: an export has its tokenizer's special tokens and all of its files") {
  using nlohmann::json;
  test::temporary_folder const folder;
  mpt::model_source const model(write_model(folder / "m", 292));
  auto const tokenizer = tokenizer_test::changed_tokenizer([](json& file) {
    file["added_tokens"].push_back(tokenizer_test::added(290, "<s>", false));
    file["added_tokens"].push_back(tokenizer_test::added(291, "</s>", false));
  });
  auto const roles = [&](std::string const& config) {
    test::write_all(folder / "words/tokenizer_config.json", config);
    return roles_in_export(model, folder / "out", folder / "words");
  };
  tokenizer.save(folder / "words");
  test::write_all(folder / "words/chat_template.jinja", "{{ messages }}");
  std::string const fast = R"({"tokenizer_class": "PreTrainedTokenizerFast")";
  CHECK(roles(fast + R"(, "eos_token": "</s>", "bos_token": "<s>"})") == json{291, 290, 291, 290});
  CHECK(roles(fast + R"(, "eos_token": "</s>"})") == json{291, nullptr, 291, nullptr});
  CHECK(roles(fast + "}") == json{nullptr, nullptr, nullptr, nullptr});
  CHECK(roles(R"({"tokenizer_class": "GPTNeoXTokenizerFast"})") == json{0, 0, 0, 0});
  test::write_all(folder / "words/special_tokens_map.json", R"({"eos_token": "</s>"})");
  CHECK(roles(fast + "}") == json{291, nullptr, 291, nullptr});
  for (char const* const name : {"tokenizer.json", "tokenizer_config.json",
                                 "special_tokens_map.json", "chat_template.jinja"}) {
    CAPTURE(name);
    CHECK(test::read_all(folder / "out" / name) == test::read_all(folder / "words" / name));
  }
}

TEST_CASE("convert: a model with tokenizer.model alone says how that becomes a tokenizer.json") {
  test::temporary_folder const folder;
  auto const model = write_model(folder / "m", 300);
  CHECK(mpt::model_source(model).notes().empty());
  test::write_all(model / "tokenizer.model", "x");
  CHECK(mpt::model_source(model).notes() ==
        std::vector{model.string() + ": has no tokenizer.json; " +
                    mpt::advice_to_make_tokenizer_json(model)});
  tokenizer_test::small_tokenizer().save(model);
  CHECK(mpt::model_source(model).notes().empty());
}

TEST_CASE("convert: an export keeps the end tokens that the model's files name") {
  using nlohmann::json;
  test::temporary_folder const folder;
  auto const tokenizer = tokenizer_test::small_tokenizer();
  tokenizer.save(folder / "words");
  auto const from = write_model(folder / "m", 300, {0, 40});
  tokenizer.save(from);
  mpt::model_source const model(from);
  CHECK(model.end_tokens() == std::vector<std::int64_t>{0, 40});
  CHECK(roles_in_export(model, folder / "out", "") == json{{0, 40}, 0, {0, 40}, 0});
  CHECK(roles_in_export(model, folder / "out", folder / "words") == json{0, 0, 0, 0});
}

TEST_CASE("convert: a trained model ends texts at its tokenizer's end token too, a copy does not") {
  using nlohmann::json;
  test::temporary_folder const folder;
  auto const tokenizer = tokenizer_test::small_tokenizer();
  auto const from = write_model(folder / "m", 300, {40});
  tokenizer.save(from);
  mpt::model_source const model(from);
  CHECK(model.end_tokens() == std::vector<std::int64_t>{40});
  CHECK(roles_in_export(model, folder / "out", "") == json{40, 0, 40, 0});
  auto const trained =
      mpt::export_options_of(model.config(), "float32", from.string(), model.end_tokens());
  CHECK(trained.generation_config->at("eos_token_id") == json{0, 40});
  CHECK(mpt::trained_end_tokens({-1, 40, 300}, 0, 300) == std::vector<std::int64_t>{0, 40});
  CHECK(mpt::trained_end_tokens({40, 0}, 0, 300) == std::vector<std::int64_t>{40, 0});
  CHECK(mpt::trained_end_tokens({}, std::nullopt, 300).empty());
}

/// The number that a GGUF file gives for this key; null: none.
nlohmann::json gguf_number(std::filesystem::path const& file, std::string const& key) {
  auto const text = test::read_all(file);
  auto const place = text.find(key);
  if (place == std::string::npos) return nullptr;
  std::uint32_t value = 0;  // after the key and the four bytes of its type
  std::memcpy(&value, text.data() + place + key.size() + 4, sizeof value);
  return value;
}

TEST_CASE("convert: a GGUF file ends texts at the tokens of a Hugging Face folder of the model") {
  using nlohmann::json;
  test::temporary_folder const folder;
  auto const tokenizer = tokenizer_test::small_tokenizer();  // whose end is token 0
  tokenizer.save(folder / "words");
  tokenizer.save(folder / "other");
  test::write_all(folder / "other/generation_config.json", R"({"eos_token_id": [41, 0]})");
  mpt::model_config model{.d_model = 8, .n_heads = 2, .n_layers = 1, .max_seq_len = 4};
  model.vocab_size = 300;
  model.family = "llama";
  model.ffn_act_fn = parallel::ops::activation_kind::silu;
  model.ffn_type = mpt::ffn_kind::mptglu;
  model.norm_type = mpt::norm_kind::rmsnorm;
  model.no_bias = true;
  model.learned_pos_emb = false;
  model.attn.rope = mpt::rope_config{};
  struct ends {
    json config;            // eos_token_id of the model's config.json
    std::string tokenizer;  // "": the model's own, which is that of words
    bool is_trained;
    json expected;
  };
  for (auto const& one :
       {ends{nullptr, "", false, 0}, ends{40, "", false, 40}, ends{{40, 41}, "", false, {40, 41}},
        ends{{40, 300}, "", false, 40}, ends{40, "words", false, 40},
        ends{40, "other", false, {41, 0}}, ends{40, "", true, {0, 40}},
        ends{40, "other", true, {41, 0}}, ends{nullptr, "", true, 0}}) {
    CAPTURE(one.config.dump());
    CAPTURE(one.tokenizer);
    CAPTURE(one.is_trained);
    auto stored_config = mpt::config_json_of(model, "float32");
    stored_config["eos_token_id"] = one.config;
    std::filesystem::remove_all(folder / "m");
    std::filesystem::remove_all(folder / "run");
    hf::hf_export(
        folder / "m", mpt::stored_tensors_of(model, hf::shapes_of(model)).shapes,
        [](std::string const&, index, std::span<float> out) { std::ranges::fill(out, 0.5F); },
        {.type = hf::precision::fp32, .config = stored_config});
    tokenizer.save(folder / "m");
    if (one.is_trained)
      mpt::import_hugging_face(mpt::model_source(folder / "m"), folder / "run", {});
    mpt::model_source const source(folder / (one.is_trained ? "run" : "m"));
    mpt::convert_options const options{
        .tokenizer = one.tokenizer.empty() ? one.tokenizer : (folder / one.tokenizer).string(),
        .existing = parallel::checkpoint::if_exists::replace};
    mpt::export_hugging_face(source, folder / "out", options);
    auto const generation = json::parse(test::read_all(folder / "out/generation_config.json"));
    CHECK(generation.at("eos_token_id") == one.expected);
    static_cast<void>(mpt::export_gguf(source, folder / "out.gguf", options));
    // of several tokens that are not ranked, llama.cpp's first is the tokenizer's
    auto const in_file =
        std::set<json>{gguf_number(folder / "out.gguf", "tokenizer.ggml.eos_token_id"),
                       gguf_number(folder / "out.gguf", "tokenizer.ggml.eot_token_id")};
    auto of_folder = one.expected.is_array()
                         ? std::set<json>(one.expected.begin(), one.expected.end())
                         : std::set<json>{one.expected, nullptr};
    CHECK(in_file == of_folder);
  }
}

TEST_CASE("convert: a replaced export keeps its tokenizer where none is named") {
  test::temporary_folder const folder;
  auto const tokenizer = tokenizer_test::small_tokenizer();
  tokenizer.save(folder / "words");
  test::write_all(folder / "words/chat_template.jinja", "{{ messages }}");
  mpt::model_source const model(write_model(folder / "m", 300));
  mpt::convert_options options{.tokenizer = folder / "words"};
  mpt::export_hugging_face(model, folder / "out", options);
  options = {.existing = parallel::checkpoint::if_exists::replace};
  mpt::export_hugging_face(model, folder / "out", options);
  for (char const* const name : {"tokenizer.json", "chat_template.jinja"})
    CHECK(test::read_all(folder / "out" / name) == test::read_all(folder / "words" / name));
  auto const config = nlohmann::json::parse(test::read_all(folder / "out/config.json"));
  CHECK(config.at("eos_token_id") == 0);
  mpt::model_source const smaller(write_model(folder / "small", 289));
  CHECK(test::message_of([&] {
          mpt::export_hugging_face(smaller, folder / "out", options);
        }).starts_with((folder / "out/tokenizer.json").string() + ": has ids up to 289, but"));
  CHECK(mpt::model_source(folder / "out").config().vocab_size == 300);
}

TEST_CASE("convert: a tokenizer with ids outside the model's vocabulary is refused") {
  test::temporary_folder const folder;
  mpt::model_source const model(write_model(folder / "m", 289));
  tokenizer_test::small_tokenizer().save(folder / "words");
  auto const expected =
      (folder / "words/tokenizer.json").string() +
      ": has ids up to 289, but those of the model end at 288; name the tokenizer that the model "
      "was trained with, or train with a vocab_size of at least 290 (hf_causal_lm: "
      "allow_embedding_resizing)";
  mpt::convert_options const options{.tokenizer = folder / "words"};
  CHECK(test::message_of([&] { mpt::export_hugging_face(model, folder / "out", options); }) ==
        expected);
  CHECK(test::message_of([&] {
          static_cast<void>(mpt::import_hugging_face(model, folder / "run", options));
        }) == expected);
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_CASE("convert: a folder without the head that its configuration has is refused") {
  test::temporary_folder const folder;
  golden_model golden("c_untied");
  std::erase_if(golden.tensors, [](auto const& tensor) { return tensor.name == "lm_head.weight"; });
  golden.write(folder / "m");
  auto const message = test::message_of(
      [&] { mpt::import_hugging_face(mpt::model_source(folder / "m"), folder / "run", {}); });
  CHECK(message.find("lm_head.weight") != std::string::npos);
}

}  // namespace hf_convert_test
