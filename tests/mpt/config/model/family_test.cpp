// Families of models: configurations of published models, what is refused, and what is written.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/model/attention_positions.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>
#include <support/golden/golden.hpp>

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

TEST_CASE("families: rotary settings mean the frequencies that transformers takes from them") {
  auto const golden = json::parse(test::read_all(test::golden_folder() / "rotary.json"));
  for (auto const& example : golden.at("cases")) {
    CAPTURE(example.dump());
    json config = golden.at("sizes");
    config["model_type"] = example.at("family");
    config.update(example.at("settings"));
    auto const model = mpt::from_hf_json(config, "config.json").model;
    auto const frequencies = mpt::rotary_frequencies(model.attn.rope.value(), mpt::head_dim(model));
    auto const expected = example.at("frequencies").get<std::vector<double>>();
    REQUIRE(frequencies.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(frequencies[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    auto const* const yarn = std::get_if<mpt::yarn_rope>(&model.attn.rope->scaling);
    CHECK((yarn != nullptr ? yarn->attention_factor : 1) ==
          doctest::Approx(example.at("factor").get<double>()).epsilon(1e-12));
  }
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

/// The rotary positions of a GPT-NeoX of which both generations of transformers wrote one half.
mpt::rope_config neox_rope(json const& overrides) {
  json const config{
      {"model_type", "gpt_neox"},
      {"vocab_size", 29},
      {"hidden_size", 64},
      {"num_hidden_layers", 1},
      {"num_attention_heads", 4},
      {"intermediate_size", 24},
      {"partial_rotary_factor", 0.25},
      {"rope_parameters",
       {{"rope_type", "default"}, {"rope_theta", 700.0}, {"partial_rotary_factor", 0.25}}}};
  return mpt::read_family_json(*mpt::find_family("gpt_neox"), config, "config.json", overrides)
      .attn.rope.value();
}

TEST_CASE("families: an override by either name of GPT-NeoX's rotary settings counts") {
  CHECK(neox_rope(json::object()) == mpt::rope_config{.theta = 700, .rotary_dim = 4});
  for (char const* const key : {"rotary_pct", "partial_rotary_factor"})
    CHECK(neox_rope({{key, 0.5}}) == mpt::rope_config{.theta = 700, .rotary_dim = 8});
  for (char const* const key : {"rotary_emb_base", "rope_theta"})
    CHECK(neox_rope({{key, 500}}) == mpt::rope_config{.theta = 500, .rotary_dim = 4});
  CHECK(neox_rope({{"rope_parameters", {{"rope_theta", 500}}}}).theta == 500);
}

TEST_CASE("families: an override of a part of rope_scaling leaves the rest, as in LLM Foundry") {
  auto const& family = *mpt::find_family("llama");
  json scaling{{"type", "linear"}, {"factor", 2.0}};
  auto file = llama(16, 2, 4, 2, 24, 29, {{"rope_scaling", scaling}, {"rope_theta", 500.0}});
  auto const rope_with = [&](json const& overrides) {
    return mpt::read_family_json(family, file, "config.json", overrides).attn.rope.value();
  };
  CHECK(rope_with({{"rope_scaling", {{"factor", 4.0}}}}) ==
        mpt::rope_config{.theta = 500, .scaling = mpt::linear_rope{.factor = 4}});
  file.erase("rope_scaling");
  scaling["rope_theta"] = 700.0;
  file.erase("rope_theta");
  file["rope_parameters"] = scaling;
  CHECK(rope_with({{"rope_scaling", {{"factor", 4.0}}}}) ==
        mpt::rope_config{.theta = 700, .scaling = mpt::linear_rope{.factor = 4}});
  auto const other = rope_with({{"rope_scaling", {{"rope_type", "yarn"}}}});
  CHECK(other.theta == 700);
  CHECK(std::get<mpt::yarn_rope>(other.scaling).factor == 2);
}

TEST_CASE("families: an override of the number of layers keeps the first kinds of attention") {
  auto file = llama(16, 3, 4, 2, 24, 29, {{"model_type", "qwen2"}});
  file["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  auto const& family = *mpt::find_family("qwen2");
  auto const model = mpt::read_family_json(family, file, "config.json", {{"num_hidden_layers", 2}});
  CHECK(model.n_layers == 2);
  CHECK(mpt::to_family_json(family, model, "float32").at("layer_types").size() == 2);
}

TEST_CASE("families: an override of the window that layer_types makes void is said") {
  auto const& family = *mpt::find_family("qwen2");
  auto file = llama(16, 2, 4, 2, 24, 29, {{"model_type", "qwen2"}});
  file["layer_types"] = {"full_attention", "full_attention"};
  json overrides{{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 0}};
  auto const window_and_notes = [&] {
    auto const model = mpt::read_family_json(family, file, "config.json", overrides);
    return std::pair(model.attn.sliding_window_size, mpt::family_notes(model, "config.json"));
  };
  auto const [window, notes] = window_and_notes();
  CHECK(window == -1);
  REQUIRE(notes.size() == 1);
  CHECK(
      notes[0].starts_with("config.json: use_sliding_window has no effect, since transformers "
                           "goes by layer_types, which is full_attention in each layer"));
  overrides["layer_types"] = nullptr;
  CHECK(window_and_notes() == std::pair(std::int64_t{7}, std::vector<std::string>()));
}

TEST_CASE("families: fields without effect and code that is not run have one note each") {
  auto config = llama(16, 2, 4, 2, 24, 29,
                      {{"use_cache", true},
                       {"flux", 3},
                       {"auto_map", {{"AutoModelForCausalLM", "modeling.Own"}}},
                       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}});
  config["rope_scaling"]["beta_fast"] = 16;
  CHECK(mpt::from_hf_json(config, "config.json").notes ==
        std::vector<std::string>{
            "config.json: without effect, since transformers' LlamaForCausalLM has no such fields: "
            "flux, rope_scaling.beta_fast",
            "config.json: auto_map: the folder's own code is never run; its model is read as "
            "transformers' LlamaForCausalLM"});
}

TEST_CASE("families: a config.json is written as it was read but for what has changed") {
  auto const& family = *mpt::find_family("qwen2");
  auto file = llama(16, 2, 4, 2, 24, 29,
                    {{"model_type", "qwen2"},
                     {"architectures", {"Qwen2ForCausalLM"}},
                     {"dtype", "bfloat16"},
                     {"pad_token_id", 7},
                     {"use_cache", true},
                     {"flux", {1, 2}},
                     {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}}});
  file["layer_types"] = {"full_attention", "full_attention"};
  auto model = mpt::from_hf_json(file, "config.json").model;
  auto const checkpoint = json::parse(mpt::to_hf_json(model, "bfloat16").dump());
  model = mpt::from_hf_json(checkpoint, "state").model;
  CHECK(mpt::to_family_json(family, model, "bfloat16") == file);
  model.vocab_size = 30;
  model.attn.rope->theta = 500;
  file["vocab_size"] = 30;
  file["dtype"] = "float32";
  auto const changed = mpt::to_family_json(family, model, "float32");
  CHECK(mpt::from_hf_json(changed, "changed").model == model);
  CHECK(changed.at("pad_token_id") == 7);
  CHECK(changed.at("vocab_size") == 30);
  CHECK(changed.at("dtype") == "float32");
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
}

/// The windows of the layers, in tokens before a token.
std::vector<std::int64_t> windows_of(mpt::model_config const& model) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < model.n_layers; ++i)
    out.push_back(mpt::attention_of_layer(model, i).sliding_window_size);
  return out;
}

TEST_CASE("families: a window in some of the layers is read and written, by either field") {
  auto config = llama(16, 3, 4, 2, 24, 29, {{"model_type", "mistral"}, {"sliding_window", 8}});
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  auto const mistral = mpt::from_hf_json(config, "config.json").model;
  CHECK(windows_of(mistral) == std::vector<std::int64_t>{-1, 7, -1});
  config = llama(16, 3, 4, 2, 24, 29, {{"model_type", "qwen2"}, {"sliding_window", 8}});
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 1;
  auto qwen = mpt::from_hf_json(config, "config.json").model;
  CHECK(windows_of(qwen) == std::vector<std::int64_t>{-1, 7, 7});
  qwen.stored = {};
  auto const written = mpt::to_family_json(*mpt::find_family("qwen2"), qwen, "float32");
  CHECK(written.at("layer_types") ==
        json({"full_attention", "sliding_attention", "sliding_attention"}));
  CHECK(mpt::from_hf_json(written, "written").model == qwen);
}

TEST_CASE("families: what a model without a stored config.json is written as describes it again") {
  for (auto const& published :
       test::text_cases("mpt/config/model/published_models.txt", "models")) {
    CAPTURE(published.text);
    auto model = mpt::from_hf_json(json::parse(published.text), "config.json").model;
    model.stored = {};
    auto const written = mpt::to_family_json(*mpt::find_family(model.family), model, "float32");
    CHECK(mpt::from_hf_json(written, "written").model == model);
    CHECK(mpt::from_hf_json(mpt::to_hf_json(model, "float32"), "state").model == model);
  }
}

TEST_CASE("families: the rotary positions of Gemma 3 by both generations of transformers' files") {
  auto older = llama(16, 6, 4, 2, 24, 29, {{"model_type", "gemma3_text"}, {"head_dim", 8}});
  auto newer = older;
  older["rope_theta"] = 5e5;
  older["rope_local_base_freq"] = 700.0;
  older["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  newer["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 700.0}}}};
  auto const model = mpt::from_hf_json(older, "older").model;
  CHECK(model == mpt::from_hf_json(newer, "newer").model);
  CHECK(mpt::attention_of_layer(model, 0).rope == mpt::rope_config{.theta = 700});
  CHECK(mpt::attention_of_layer(model, 5).rope ==
        mpt::rope_config{.theta = 5e5, .scaling = mpt::linear_rope{.factor = 8}});
}

TEST_CASE("families: GELU in a Gemma's config.json is its tanh approximation, as a note says") {
  auto config = llama(16, 2, 4, 2, 24, 29, {{"model_type", "gemma"}, {"head_dim", 8}});
  auto const tanh_model = mpt::from_hf_json(config, "config.json");
  CHECK(tanh_model.notes.empty());
  config["hidden_act"] = "gelu";
  auto const gelu_model = mpt::from_hf_json(config, "config.json");
  CHECK(gelu_model.model == tanh_model.model);
  REQUIRE(gelu_model.notes.size() == 1);
  CHECK(test::contains(gelu_model.notes[0], "hidden_act gelu means gelu_pytorch_tanh"));
}

TEST_CASE("families: a list of the layers without positions keeps its first for fewer layers") {
  auto file = llama(16, 3, 4, 2, 24, 29, {{"model_type", "smollm3"}});
  file["no_rope_layers"] = {1, 0, 1};
  auto const& family = *mpt::find_family("smollm3");
  auto const model = mpt::read_family_json(family, file, "config.json", {{"num_hidden_layers", 2}});
  REQUIRE(model.layers.size() == 2);
  CHECK(model.layers[1].nope);
}

TEST_CASE("families: a Mistral with layer_types goes by them, as transformers' Ministral") {
  auto config = llama(16, 2, 4, 2, 24, 29, {{"model_type", "mistral"}, {"sliding_window", 8}});
  config["layer_types"] = {"full_attention", "full_attention"};
  CHECK(mpt::from_hf_json(config, "config.json").model.attn.sliding_window_size == -1);
  config["layer_types"] = {"sliding_attention", "sliding_attention"};
  CHECK(mpt::from_hf_json(config, "config.json").model.attn.sliding_window_size == 7);
  config["sliding_window"] = nullptr;
  CHECK(test::contains(test::message_of([&] { (void)mpt::from_hf_json(config, "config.json"); }),
                       "layer_types: is sliding_attention, but sliding_window gives no window"));
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
