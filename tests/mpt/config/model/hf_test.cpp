// Tests of config.json: round trips, the hub's file, transformers' file, and refused files.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/sizes.hpp>
#include <parallel/support/files.hpp>
#include <support/data.hpp>

#include "mpt/config/refused_settings.hpp"

namespace hf_test {

inline std::string problem(nlohmann::json const& json) {
  return test::message_of([&] { static_cast<void>(mpt::from_hf_json(json, "config.json")); });
}

TEST_CASE(
    "config.json: whole numbers are written as integers, as transformers' MptAttentionConfig "
    "requires") {
  auto const attention = to_hf_json(mpt::named_size("125m"), "float32").at("attn_config");
  CHECK(attention.at("attn_pdrop").is_number_integer());
  CHECK(attention.at("alibi_bias_max").is_number_integer());
}

TEST_CASE("config.json: every form of the model is read back equal") {
  auto model = mpt::named_size("125m");
  auto customised = model;
  customised.expansion_ratio = 2.5;
  customised.attention_bias = false;
  customised.embedding_fraction = 0.5;
  customised.logit_scale = 0.25;
  customised.norm_type = mpt::norm_kind::layernorm;
  customised.norm_eps = 1e-6;
  customised.attn.qk_ln = true;
  customised.attn.clip_qkv = 8;
  customised.attn.softmax_scale = 0.1;
  customised.attn.attn_pdrop = 0.1;
  customised.init.name = mpt::init_scheme::small;
  customised.init.emb_init_uniform_lim = {-0.25, 0.5};
  customised.init.init_div_is_residual = 4.0;
  auto hidden = mpt::hub_form(model);
  hidden.ffn_hidden_size = 1000;
  auto modern = customised;
  modern.norm_type = mpt::norm_kind::triton_rmsnorm;
  modern.attn.norm_type = mpt::norm_kind::rmsnorm;
  modern.ffn_type = mpt::ffn_kind::mptglu;
  modern.ffn_act_fn = parallel::ops::activation_kind::silu;
  modern.tie_word_embeddings = false;
  modern.final_logit_softcapping = 30.5;
  auto tanh = model;
  tanh.ffn_act_fn = parallel::ops::activation_kind::gelu_tanh;
  auto grouped = customised;
  grouped.learned_pos_emb = false;
  grouped.attn.qk_ln = false;
  grouped.attn.qk_gn = true;
  grouped.attn.norm_type = mpt::norm_kind::layernorm;
  grouped.attn.kv_n_heads = 3;
  grouped.attn.fused_qkv = false;
  grouped.attn.attn_logit_softcapping = 30;
  grouped.attn.sliding_window_size = 100;
  grouped.attn.attn_uses_sequence_id = true;
  grouped.attn.rope = mpt::rope_config{500000, mpt::llama3_rope{8, 1, 4, 2048}};
  auto layered = grouped;
  layered.attn.rope = mpt::rope_config{.scaling = mpt::linear_rope{2}};
  layered.attn.temperature = {100, 0.25};
  layered.layers.resize(static_cast<std::size_t>(layered.n_layers));
  layered.layers[1] = layered.layers[4] =
      layered.layers[5] = {.sliding_window_size = -1, .nope = true};
  layered.layers[2] = {.floor_scale = 7, .attn_scale = 0.5};
  layered.layers[3] = {.sliding_window_size = 5, .reuse_kv_layer_idx = -2};
  auto fading = grouped;
  fading.attn.rope = mpt::rope_config{.theta = 500, .xpos_scale_base = 600};
  for (auto const& config : {model, customised, hidden, modern, tanh, grouped, layered, fading,
                             mpt::hub_form(model), mpt::hub_form(customised)})
    for (std::string const dtype : {"float32", "bfloat16"}) {
      auto const text = mpt::to_hf_json(config, dtype).dump();
      auto const result = mpt::from_hf_json(nlohmann::json::parse(text), "config.json");
      CHECK(result.model == config);
      CHECK(result.dtype == dtype);
    }
}

TEST_CASE("config.json: names transformers' MptForCausalLM exactly when that computes the same") {
  auto const model = mpt::named_size("125m");
  auto const hub = mpt::hub_form(model);
  CHECK(mpt::transformers_gaps(hub).empty());
  CHECK(mpt::to_hf_json(hub, "float32")["architectures"][0] == "MptForCausalLM");
  CHECK(mpt::to_hf_json(model, "float32")["architectures"][0] == mpt::remote_architecture);
  CHECK(mpt::transformers_gaps(model).size() == 3);
  auto untied = hub;
  untied.tie_word_embeddings = false;
  CHECK(mpt::transformers_gaps(untied).empty());
  auto rotary = hub;
  rotary.attn.alibi = false;
  CHECK(mpt::transformers_gaps(rotary) ==
        std::vector<std::string>{"there are no positions; it always uses ALiBi"});
  rotary.attn.rope.emplace();
  CHECK(mpt::transformers_gaps(rotary) ==
        std::vector<std::string>{"positions are rotary; it always uses ALiBi alone"});
  auto modern = hub;
  modern.norm_type = mpt::norm_kind::rmsnorm;
  modern.ffn_type = mpt::ffn_kind::mptglu;
  modern.ffn_act_fn = parallel::ops::activation_kind::silu;
  modern.final_logit_softcapping = 30;
  CHECK(mpt::transformers_gaps(modern).size() == 4);
  auto other = hub;
  other.attn.qk_ln = true;
  other.expansion_ratio = 5;
  CHECK(mpt::transformers_gaps(other) ==
        std::vector<std::string>{"the FFN is not 4 times d_model wide",
                                 "q and k are normalised (qk_ln); it ignores that"});
}

TEST_CASE("config.json: what vLLM refuses or ignores of an MPT is named") {
  auto const hub = mpt::hub_form(mpt::named_size("125m"));
  CHECK(mpt::vllm_gaps(hub).empty());
  CHECK(mpt::vllm_gaps(mpt::named_size("125m")) ==
        std::vector<std::string>{"it has transformers' form of MPT alone, without the folder's "
                                 "code"});
  auto scaled = hub;
  scaled.attn.softmax_scale = 1 / std::sqrt(64.0);
  CHECK(mpt::vllm_gaps(scaled).empty());
  scaled.attn.softmax_scale = 0.25;
  CHECK(mpt::vllm_gaps(scaled) ==
        std::vector<std::string>{"it ignores softmax_scale and takes 1/sqrt(head_dim)"});
  auto other = hub;
  other.tie_word_embeddings = false;
  other.norm_type = mpt::norm_kind::layernorm;
  other.embedding_fraction = 0.5;
  other.norm_eps = 1e-6;
  CHECK(mpt::vllm_gaps(other).size() == 4);
  other.family = "llama";
  CHECK(mpt::vllm_gaps(other).empty());
}

TEST_CASE("difference_of: compares the meaning of the weights, not the spelling of settings") {
  mpt::model_config const plain;
  auto equivalent = plain;
  equivalent.norm_type = mpt::norm_kind::layernorm;
  equivalent.attn.norm_type =
      mpt::norm_kind::low_precision_rmsnorm;  // unused without qk_ln and qk_gn
  equivalent.ffn_hidden_size = mpt::ffn_hidden(plain);
  equivalent.attention_bias = !plain.no_bias;
  equivalent.attn.kv_n_heads = plain.n_heads;
  equivalent.attn.softmax_scale = 1 / std::sqrt(static_cast<double>(plain.d_model / plain.n_heads));
  equivalent.attn.alibi_bias_max = 16;  // without ALiBi
  equivalent.resid_pdrop = 0.5;
  CHECK(!mpt::difference_of(plain, equivalent));
  auto other = plain;
  other.n_heads *= 2;
  auto const heads = mpt::difference_of(plain, other);
  REQUIRE(heads.has_value());
  CHECK(heads->name == "n_heads");
  auto grouped = plain, same_grouped = plain;
  grouped.attn.kv_n_heads = same_grouped.attn.kv_n_heads = 4;
  CHECK(!mpt::difference_of(grouped, same_grouped));
  CHECK(mpt::difference_of(plain, grouped)->name == "attn_config.kv_n_heads");
  auto rotary = plain, other_theta = plain;
  rotary.learned_pos_emb = other_theta.learned_pos_emb = false;
  rotary.attn.rope.emplace();
  other_theta.attn.rope.emplace().theta = 500000;
  auto const theta = mpt::difference_of(rotary, other_theta);
  REQUIRE(theta.has_value());
  CHECK(theta->name == "attn_config.rope_theta");
  CHECK(theta->second == "500000");
  CHECK(!mpt::difference_of(rotary, other_theta, "attn_config.rope_"));
  CHECK(mpt::difference_of(plain, other_theta, "attn_config.rope_"));
}

TEST_CASE("config.json: the hub's mpt-7b is read") {
  auto const folder = test::data_folder();
  if (folder.empty()) return;
  auto const read = mpt::read_hf_config(folder / "mpt" / "mpt-7b-instruct_config.json");
  auto expected = mpt::hub_form(mpt::named_size("7b"));
  expected.init.init_std = 0.02;
  CHECK(read.model == expected);
  CHECK(read.dtype == "bfloat16");
}

TEST_CASE("config.json: absent keys have the defaults of the program that wrote the file") {
  mpt::model_config const defaults;
  nlohmann::json json = {{"model_type", "mpt"},           {"architectures", {"MptForCausalLM"}},
                         {"d_model", defaults.d_model},   {"n_heads", defaults.n_heads},
                         {"n_layers", defaults.n_layers}, {"vocab_size", defaults.vocab_size}};
  auto const transformers = mpt::from_hf_json(json, "config.json").model;
  CHECK(transformers.attn.alibi);
  CHECK(transformers.no_bias);
  json["architectures"] = {"MPTForCausalLM"};
  auto const foundry = mpt::from_hf_json(json, "config.json").model;
  CHECK(foundry == defaults);
}

TEST_CASE("config.json: a model that cannot be represented is refused") {
  nlohmann::json const base = mpt::to_hf_json(mpt::hub_form(mpt::named_size("125m")), "float32");
  for (auto const& [text, message] : test::refused_settings("config.json")) {
    auto json = base;
    json.merge_patch(nlohmann::json::parse(text));
    CHECK(problem(json) == message);
  }
  nlohmann::json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = nlohmann::json::array({deep});
  auto nested = base;
  nested["deep"] = deep;
  CHECK(problem(nested) == "config.json: nested too deeply");
}

TEST_CASE("config.json: keys that belong to no model are ignored") {
  auto json = mpt::to_hf_json(mpt::hub_form(mpt::named_size("125m")), "float32");
  json["bos_token_id"] = 0;
  json["auto_map"] = {{"AutoConfig", "configuration_mpt.MPTConfig"}};
  json["attn_config"]["model_type"] = "";
  json["attn_config"]["attn_impl"] = "triton";
  CHECK(problem(json) == "");
  json["attn_config"].update({{"_name_or_path", ""},  // as transformers 5 saves it
                              {"architectures", nullptr},
                              {"chunk_size_feed_forward", 0},
                              {"dtype", "float32"},
                              {"id2label", {{"0", "LABEL_0"}, {"1", "LABEL_1"}}},
                              {"is_encoder_decoder", false},
                              {"label2id", {{"LABEL_0", 0}, {"LABEL_1", 1}}},
                              {"output_attentions", false},
                              {"output_hidden_states", false},
                              {"problem_type", nullptr},
                              {"return_dict", true}});
  CHECK(problem(json) == "");
  json["attn_config"]["alibis"] = true;
  CHECK(test::contains(problem(json), "attn_config.alibis: unknown key"));
}

}  // namespace hf_test
