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

TEST_CASE("families: published models have as many parameters as their authors count") {
  for (auto const& model : test::text_cases("mpt/config/model/published_models.txt", "models")) {
    CAPTURE(model.text);
    auto const config = mpt::from_hf_json(json::parse(model.text), "config.json").model;
    CHECK(std::to_string(mpt::parameter_count(config)) == model.expected);
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
