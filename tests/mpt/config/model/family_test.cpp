// Families of models: configurations of published models, what is refused, and what is written.
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>

#include "mpt/config/refused_settings.hpp"

namespace family_test {

using nlohmann::json;

json llama(std::int64_t width, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
           std::int64_t hidden, std::int64_t vocabulary, json const& changes = json::object()) {
  json out{{"model_type", "llama"},           {"hidden_size", width},
           {"num_hidden_layers", layers},     {"num_attention_heads", heads},
           {"num_key_value_heads", kv_heads}, {"intermediate_size", hidden},
           {"vocab_size", vocabulary}};
  out.update(changes);
  return out;
}

json neox(std::int64_t width, std::int64_t layers, std::int64_t heads, std::int64_t vocabulary) {
  return {{"model_type", "gpt_neox"},       {"hidden_size", width},
          {"num_hidden_layers", layers},    {"num_attention_heads", heads},
          {"intermediate_size", 4 * width}, {"vocab_size", vocabulary}};
}

json gpt2(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  return {{"model_type", "gpt2"},
          {"n_embd", width},
          {"n_layer", layers},
          {"n_head", heads},
          {"vocab_size", 50257}};
}

struct published_model {
  char const* name;
  json config;
  std::int64_t parameters;  // of its model card or its files
};

TEST_CASE("families: published models have as many parameters as their authors count") {
  json const tied{{"tie_word_embeddings", true}};
  json const mistral{{"model_type", "mistral"}};
  json const qwen2{{"model_type", "qwen2"}};
  json const tied_qwen2{{"model_type", "qwen2"}, {"tie_word_embeddings", true}};
  json const qwen3{{"model_type", "qwen3"}, {"head_dim", 128}};
  json const tied_qwen3{{"model_type", "qwen3"}, {"head_dim", 128}, {"tie_word_embeddings", true}};
  json const nemo{{"model_type", "mistral"}, {"head_dim", 128}};
  published_model const models[] = {
      {"Llama-2-7b", llama(4096, 32, 32, 32, 11008, 32000), 6'738'415'616},
      {"Llama-2-13b", llama(5120, 40, 40, 40, 13824, 32000), 13'015'864'320},
      {"Llama-2-70b", llama(8192, 80, 64, 8, 28672, 32000), 68'976'648'192},
      {"Llama-3.1-8B", llama(4096, 32, 32, 8, 14336, 128256), 8'030'261'248},
      {"Llama-3.1-70B", llama(8192, 80, 64, 8, 28672, 128256), 70'553'706'496},
      {"Llama-3.2-1B", llama(2048, 16, 32, 8, 8192, 128256, tied), 1'235'814'400},
      {"Llama-3.2-3B", llama(3072, 28, 24, 8, 8192, 128256, tied), 3'212'749'824},
      {"Mistral-7B-v0.1", llama(4096, 32, 32, 8, 14336, 32000, mistral), 7'241'732'096},
      {"Mistral-Nemo-Base-2407", llama(5120, 40, 32, 8, 14336, 131072, nemo), 12'247'782'400},
      {"Qwen2.5-0.5B", llama(896, 24, 14, 2, 4864, 151936, tied_qwen2), 494'032'768},
      {"Qwen2.5-1.5B", llama(1536, 28, 12, 2, 8960, 151936, tied_qwen2), 1'543'714'304},
      {"Qwen2.5-7B", llama(3584, 28, 28, 4, 18944, 152064, qwen2), 7'615'616'512},
      {"Qwen2.5-72B", llama(8192, 80, 64, 8, 29568, 152064, qwen2), 72'706'203'648},
      {"Qwen3-0.6B", llama(1024, 28, 16, 8, 3072, 151936, tied_qwen3), 596'049'920},
      {"Qwen3-8B", llama(4096, 36, 32, 8, 12288, 151936, qwen3), 8'190'735'360},
      {"Qwen3-32B", llama(5120, 64, 64, 8, 25600, 151936, qwen3), 32'762'123'264},
      {"pythia-70m", neox(512, 6, 8, 50304), 70'426'624},
      {"pythia-6.9b", neox(4096, 32, 32, 50432), 6'857'302'016},
      {"gpt-neox-20b", neox(6144, 44, 64, 50432), 20'554'567'680},
      {"gpt2", gpt2(768, 12, 12), 124'439'808},
      {"gpt2-xl", gpt2(1600, 48, 25), 1'557'611'200}};
  for (auto const& model : models) {
    CAPTURE(model.name);
    CHECK(mpt::parameter_count(mpt::from_hf_json(model.config, model.name).model) ==
          model.parameters);
  }
}

TEST_CASE("families: the rotary positions of both generations of transformers' files") {
  json const scaling{{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  auto older = llama(16, 1, 4, 2, 24, 29, {{"rope_theta", 500000.0}, {"rope_scaling", scaling}});
  auto newer = llama(16, 1, 4, 2, 24, 29, {{"rope_parameters", scaling}});
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  auto const model = mpt::from_hf_json(older, "older").model;
  CHECK(model == mpt::from_hf_json(newer, "newer").model);
  REQUIRE(model.attn.rope.has_value());
  CHECK(model.attn.rope->theta == 500000.0);
  CHECK(std::holds_alternative<mpt::llama3_rope>(model.attn.rope->scaling));
  older["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  older["max_position_embeddings"] = 4096;
  auto const stretched =
      std::get<mpt::yarn_rope>(mpt::from_hf_json(older, "older").model.attn.rope.value().scaling);
  CHECK(stretched.original_max_position_embeddings == 4096);
  CHECK(stretched.attention_factor == doctest::Approx(0.1 * std::log(4.0) + 1.0).epsilon(1e-15));
}

std::string refusal(json const& changes) {
  return test::message_of(
      [&] { (void)mpt::from_hf_json(llama(16, 2, 4, 2, 24, 29, changes), "config.json"); });
}

TEST_CASE("families: configurations that cannot be held are refused by the field's name") {
  for (auto const& [text, message] : test::refused_settings("family"))
    CHECK(refusal(json::parse(text)) == message);
  CHECK(refusal({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"fcator", 4.0}}}})
            .starts_with("config.json: rope_scaling: fcator: is no setting of rotary positions "
                         "that is read; its settings are rope_type, type, "));
}

TEST_CASE("families: overrides replace fields of the file, and unknown ones are refused") {
  auto const& family = *mpt::find_family("llama");
  auto const model = mpt::read_family_json(family, llama(16, 2, 4, 2, 24, 29), "config.json",
                                           {{"num_hidden_layers", 3}, {"attention_dropout", 0.1}});
  CHECK(model.n_layers == 3);
  CHECK(model.attn.attn_pdrop == 0.1);
  CHECK(test::contains(test::message_of([&] {
                         (void)mpt::read_family_json(family, llama(16, 2, 4, 2, 24, 29),
                                                     "config.json", {{"num_layers", 3}});
                       }),
                       "config.json: num_layers: the family llama has no such field"));
}

TEST_CASE("families: overridden rotary positions replace those of either generation of files") {
  auto const& family = *mpt::find_family("llama");
  json const newer = llama(16, 2, 4, 2, 24, 29,
                           {{"rope_parameters",
                             {{"rope_theta", 1e6},
                              {"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}}}});
  auto const rope_with = [&](json const& overrides) {
    return mpt::read_family_json(family, newer, "config.json", overrides).attn.rope.value();
  };
  CHECK(rope_with({{"rope_theta", 5e5}}).theta == 5e5);
  CHECK(std::holds_alternative<mpt::llama3_rope>(rope_with({{"rope_theta", 5e5}}).scaling));
  auto const linear = rope_with({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  CHECK(std::holds_alternative<mpt::linear_rope>(linear.scaling));
  CHECK(linear.theta == 1e6);
  CHECK(std::holds_alternative<mpt::unscaled_rope>(rope_with({{"rope_scaling", nullptr}}).scaling));
  CHECK(rope_with({{"use_cache", false}}).theta == 1e6);
}

TEST_CASE("families: absent fields have the defaults of their own class of transformers") {
  auto config = llama(4096, 1, 32, 8, 64, 29, {{"model_type", "mistral"}});
  config.erase("num_key_value_heads");
  auto const mistral = mpt::from_hf_json(config, "config.json").model;
  CHECK(mpt::kv_heads(mistral) == 8);
  CHECK(mistral.max_seq_len == 131072);
  CHECK(mistral.attn.sliding_window_size == 4095);
  config["model_type"] = "llama";
  CHECK(mpt::kv_heads(mpt::from_hf_json(config, "config.json").model) == 32);
  config["partial_rotary_factor"] = 0.5;  // which transformers ignores for this family
  CHECK_FALSE(
      mpt::from_hf_json(config, "config.json").model.attn.rope.value().rotary_dim.has_value());
}

TEST_CASE("families: a Mistral with a window in some of its layers is refused") {
  auto config = llama(16, 2, 4, 2, 24, 29, {{"model_type", "mistral"}, {"sliding_window", 8}});
  config["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(test::message_of([&] { (void)mpt::from_hf_json(config, "config.json"); }) ==
        "config.json: layer_types: attention has a window in some of the layers, which is not "
        "supported");
  config["layer_types"] = {"full_attention", "full_attention"};
  CHECK(mpt::from_hf_json(config, "config.json").model.attn.sliding_window_size == -1);
}

TEST_CASE("families: a setting that a family has no field for is not written") {
  auto model = mpt::from_hf_json(llama(16, 2, 4, 2, 24, 29), "config.json").model;
  model.attn.clip_qkv = 6;
  CHECK(test::message_of([&] {
          (void)mpt::to_family_json(*mpt::find_family("llama"), model, "float32");
        }) == "the family llama has no field for this model's attn_config.clip_qkv, 6.0");
}

TEST_CASE("families: the guide's table names every family with its class of transformers") {
  auto const guide = test::read_all(test::checkout() / "docs" / "families.md");
  for (auto const* const family : mpt::model_families()) {
    CAPTURE(family->model_type);
    CHECK(test::contains(
        guide, parallel::concat("| `", family->model_type, "` | `", family->architecture, "` |")));
  }
}

}  // namespace family_test
