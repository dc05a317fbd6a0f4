#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/gguf_model.hpp>
#include <parallel/support/files.hpp>

namespace gguf_model_test {
namespace hf = mpt::hf;
using mpt::model_config;
using parallel::index;
using parallel::checkpoint::element_type;

model_config small_model() {
  model_config model;
  model.d_model = 8;
  model.n_heads = 2;
  model.n_layers = 1;
  model.max_seq_len = 5;
  model.vocab_size = 6;
  return model;
}

model_config family_model(std::string const& family) {
  auto model = small_model();
  model.family = family;
  model.ffn_act_fn = parallel::ops::activation_kind::silu;
  model.ffn_type = mpt::ffn_kind::mptglu;
  model.norm_type = mpt::norm_kind::rmsnorm;
  model.no_bias = true;
  model.learned_pos_emb = false;
  model.attn.rope = mpt::rope_config{};
  return model;
}

/// The elements of a tensor of the file, where parameter i of `parameters` has the elements
/// 1000 i, 1000 i + 1, ...
std::vector<float> elements_of(hf::gguf_source const& source,
                               std::vector<hf::named_shape> const& parameters) {
  std::vector<float> out;
  hf::for_each_gguf_piece(
      source,
      [&](std::string const& name, index begin, std::span<float> values) {
        auto const found = std::ranges::find(parameters, name, &hf::named_shape::name);
        for (auto& value : values)
          value = static_cast<float>(1000 * (found - parameters.begin()) + begin++);
      },
      [&](std::span<float const> values) { out.insert(out.end(), values.begin(), values.end()); });
  return out;
}

TEST_CASE("gguf model: an MPT's tensors have llama.cpp's names, types and extents") {
  std::vector<hf::named_shape> const parameters = {
      {"transformer.wte.weight", {6, 8}},
      {"transformer.wpe.weight", {5, 8}},
      {"transformer.blocks.0.norm_1.weight", {8}},
      {"transformer.blocks.0.attn.Wq.weight", {8, 8}},
      {"transformer.blocks.0.attn.Wk.weight", {4, 8}},
      {"transformer.blocks.0.attn.Wv.weight", {4, 8}},
      {"transformer.blocks.0.attn.out_proj.bias", {8}},
      {"transformer.blocks.0.ffn.up_proj.weight", {32, 8}},
      {"lm_head.weight", {6, 8}}};
  auto model = small_model();
  model.attn.kv_n_heads = 1;
  auto const sources = hf::gguf_sources(model, parameters, hf::precision::bf16);
  std::vector<std::string> names;
  for (auto const& source : sources) names.push_back(source.tensor.name);
  CHECK(names == std::vector<std::string>{"token_embd.weight", "position_embd.weight",
                                          "blk.0.attn_norm.weight", "blk.0.attn_qkv.weight",
                                          "blk.0.attn_output.bias", "blk.0.ffn_up.weight",
                                          "output.weight"});
  CHECK(sources[0].tensor.type == element_type::bf16);
  CHECK(sources[1].tensor.type == element_type::f32);
  CHECK(sources[2].tensor.type == element_type::f32);
  auto const& joint = sources[3];
  CHECK(joint.tensor.extents == std::vector<index>{16, 8});
  auto const elements = elements_of(joint, parameters);
  REQUIRE(elements.size() == 128);
  for (index i = 0; i < 128; ++i) {
    index const expected = i < 64 ? 3000 + i : i < 96 ? 4000 + i - 64 : 5000 + i - 96;
    REQUIRE(elements[static_cast<std::size_t>(i)] == static_cast<float>(expected));
  }
}

TEST_CASE("gguf model: halves of Llama's heads alternate in queries and keys alone") {
  std::vector<hf::named_shape> const parameters = {
      {"transformer.blocks.0.attn.Wqkv.weight", {24, 3}}};
  auto const sources = hf::gguf_sources(family_model("llama"), parameters, hf::precision::fp32);
  REQUIRE(sources.size() == 3);
  CHECK(sources[0].tensor.name == "blk.0.attn_q.weight");
  CHECK(sources[1].tensor.name == "blk.0.attn_k.weight");
  CHECK(sources[2].tensor.name == "blk.0.attn_v.weight");
  std::vector<index> const rows = {0, 2, 1, 3, 4, 6, 5, 7};  // of heads of four rows
  for (std::size_t i = 0; i < 3; ++i) {
    auto const elements = elements_of(sources[i], parameters);
    REQUIRE(elements.size() == 24);
    for (std::size_t e = 0; e < 24; ++e) {
      auto const row = i < 2 ? static_cast<std::size_t>(rows[e / 3]) : e / 3;
      CHECK(elements[e] == static_cast<float>(24 * i + 3 * row + e % 3));
    }
  }
  auto const qwen = hf::gguf_sources(family_model("qwen3"), parameters, hf::precision::fp32);
  CHECK(elements_of(qwen[0], parameters)[3] == 3);
}

TEST_CASE("gguf model: Llama 3's scaling is a tensor of factors, 1 for fast frequencies") {
  auto model = family_model("llama");
  model.d_model = 64;
  model.n_heads = 1;
  model.attn.rope->theta = 500000;
  model.attn.rope->scaling = mpt::llama3_rope{.factor = 8};
  CHECK(hf::gguf_gaps(model).empty());
  auto const sources = hf::gguf_sources(model, {}, hf::precision::bf16);
  REQUIRE(sources.size() == 1);
  CHECK(sources[0].tensor.name == "rope_freqs.weight");
  CHECK(sources[0].tensor.type == element_type::f32);
  auto const factors = elements_of(sources[0], {});
  REQUIRE(factors.size() == 32);
  CHECK(factors.front() == 1);
  CHECK(factors.back() == doctest::Approx(8));
  CHECK(std::ranges::is_sorted(factors));
}

TEST_CASE("gguf model: fields describe the model") {
  auto model = small_model();
  model.attn.clip_qkv = 0.5;
  auto fields = hf::gguf_model_fields(model, hf::precision::fp16, "m");
  auto const value_of = [&](std::string const& name) {
    auto const found = std::ranges::find(fields, name, &hf::gguf_field::name);
    REQUIRE_MESSAGE(found != fields.end(), name);
    return found->value;
  };
  auto const has = [&](std::string const& name) {
    return std::ranges::find(fields, name, &hf::gguf_field::name) != fields.end();
  };
  CHECK(value_of("general.architecture") == hf::gguf_value(std::string("mpt")));
  CHECK(value_of("general.file_type") == hf::gguf_value(std::uint32_t{1}));
  CHECK(value_of("mpt.context_length") == hf::gguf_value(std::uint32_t{5}));
  CHECK(value_of("mpt.feed_forward_length") == hf::gguf_value(std::uint32_t{32}));
  CHECK(value_of("mpt.attention.layer_norm_epsilon") == hf::gguf_value(1e-5F));
  CHECK(value_of("mpt.attention.max_alibi_bias") == hf::gguf_value(0.0F));
  CHECK(value_of("mpt.attention.clamp_kqv") == hf::gguf_value(0.5F));
  model.attn.clip_qkv.reset();
  model.attn.alibi = true;
  model.attn.alibi_bias_max = 4;
  fields = hf::gguf_model_fields(model, hf::precision::fp32, "m");
  CHECK(value_of("mpt.attention.max_alibi_bias") == hf::gguf_value(4.0F));
  CHECK_FALSE(has("mpt.attention.clamp_kqv"));
  auto llama = family_model("mistral");
  llama.head_dim = 6;
  fields = hf::gguf_model_fields(llama, hf::precision::bf16, "m");
  CHECK(value_of("general.architecture") == hf::gguf_value(std::string("llama")));
  CHECK(value_of("llama.rope.dimension_count") == hf::gguf_value(std::uint32_t{6}));
  CHECK(value_of("llama.attention.key_length") == hf::gguf_value(std::uint32_t{6}));
  CHECK(value_of("llama.attention.layer_norm_rms_epsilon") == hf::gguf_value(1e-5F));
  CHECK_FALSE(has("llama.rope.scaling.type"));
}

TEST_CASE("gguf model: what llama.cpp does not compute is refused by name") {
  using change = std::function<void(model_config&)>;
  std::vector<std::pair<change, char const*>> const changes = {
      {[](auto& m) { m.norm_type = mpt::norm_kind::rmsnorm; }, "norms are rmsnorm"},
      {[](auto& m) { m.ffn_type = mpt::ffn_kind::mptglu; }, "gated"},
      {[](auto& m) { m.parallel_residual = true; }, "parallel_residual"},
      {[](auto& m) { m.ffn_act_fn = parallel::ops::activation_kind::relu; }, "activation"},
      {[](auto& m) { m.logit_scale = 0.5; }, "logit_scale"},
      {[](auto& m) { m.final_logit_softcapping = 30; }, "final_logit_softcapping"},
      {[](auto& m) { m.attn.softmax_scale = 0.3; }, "softmax_scale is 0.3"},
      {[](auto& m) { m.attn.attn_logit_softcapping = 30; }, "attn_logit_softcapping"},
      {[](auto& m) { m.attn.sliding_window_size = 2; }, "a window (of 3 tokens)"},
      {[](auto& m) { m.attn.temperature.attn_scale = 0.1; }, "attn_temperature_tuning"},
      {[](auto& m) { m.layers = {mpt::layer_override{.nope = true}}; }, "block_overrides"},
      {[](auto& m) { m.attn.qk_gn = true; }, "qk_gn"},
      {[](auto& m) { m.attn.qk_ln = true; }, "qk_ln"},
      {[](auto& m) { m.attn.qk_gn = true, m.norm_eps = 1e-3; }, "one epsilon"},
      {[](auto& m) { m.head_dim = 6; }, "heads are 12 wide together"},
      {[](auto& m) { m.attn.rope = mpt::rope_config{}; }, "positions are rotary"}};
  CHECK(hf::gguf_gaps(small_model()).empty());
  for (auto const& entry : changes) {
    auto model = small_model();
    entry.first(model);
    auto const has_words = [&](std::string const& gap) {
      return test::contains(gap, entry.second);
    };
    CHECK_MESSAGE(std::ranges::any_of(hf::gguf_gaps(model), has_words), std::string(entry.second));
  }
}

TEST_CASE("gguf model: what llama.cpp does compute is not refused") {
  auto model = small_model();
  model.attn.softmax_scale = 0.5;  // of heads of four elements
  model.attn.sliding_window_size = 4;
  model.attn.clip_qkv = 6;
  model.no_bias = true;
  model.expansion_ratio = 2.5;
  model.norm_eps = 1e-5;
  CHECK(hf::gguf_gaps(model).empty());
  model.learned_pos_emb = false;
  CHECK(hf::gguf_gaps(model).empty());
  CHECK(hf::gguf_notes(model).size() == 1);
  model.ffn_act_fn = parallel::ops::activation_kind::gelu_tanh;
  CHECK(hf::gguf_notes(model).empty());
}

TEST_CASE("gguf model: a family's gaps are its architecture's") {
  CHECK(hf::gguf_gaps(family_model("llama")).empty());
  CHECK(hf::gguf_notes(family_model("llama")).empty());
  auto const has_gap = [](model_config const& model, char const* words) {
    auto const gaps = hf::gguf_gaps(model);
    return std::ranges::any_of(gaps, [&](auto const& gap) { return test::contains(gap, words); });
  };
  CHECK(has_gap(family_model("qwen2"), "have no biases, which it expects"));
  auto qwen3 = family_model("qwen3");
  qwen3.attention_bias = true;
  CHECK(has_gap(qwen3, "projections of attention have biases"));
  qwen3.attn.rope->scaling = mpt::llama3_rope{};
  CHECK(has_gap(qwen3, "as Llama 3's are"));
  auto llama = family_model("llama");
  llama.ffn_act_fn = parallel::ops::activation_kind::gelu;
  CHECK(has_gap(llama, "activation is not silu"));
  llama.attn.rope->scaling = mpt::yarn_rope{.factor = 4};
  CHECK(has_gap(llama, "YaRN's"));
  llama.attn.rope->scaling =
      mpt::yarn_rope{.factor = 4, .attention_factor = 0.1 * std::log(4.0) + 1};
  CHECK_FALSE(has_gap(llama, "YaRN's"));
}

/// A model of a family, read from the smallest config.json with these fields.
model_config read_family(std::string const& family, nlohmann::json const& fields) {
  nlohmann::json json{{"model_type", family},     {"vocab_size", 6},
                      {"hidden_size", 16},        {"num_hidden_layers", 2},
                      {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                      {"intermediate_size", 8},   {"max_position_embeddings", 64}};
  if (fields.is_object()) json.update(fields);
  return mpt::from_hf_json(json, "config.json").model;
}

TEST_CASE("gguf model: only the elements that turn alternate where a part of each head turns") {
  auto const model = read_family("glm4", {{"head_dim", 6}, {"partial_rotary_factor", 0.7}});
  std::vector<hf::named_shape> const parameters = {
      {"transformer.blocks.0.attn.Wqkv.weight", {24, 1}}};
  auto const sources = hf::gguf_sources(model, parameters, hf::precision::fp32);
  CHECK(elements_of(sources[0], parameters) ==
        std::vector<float>{0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11});
  CHECK(elements_of(sources[2], parameters) == std::vector<float>{18, 19, 20, 21, 22, 23});
}

TEST_CASE("gguf model: experts' matrices are one tensor, those of down projections transposed") {
  auto const model = read_family("qwen2_moe", {{"num_experts", 2},
                                               {"num_experts_per_tok", 1},
                                               {"moe_intermediate_size", 2},
                                               {"shared_expert_intermediate_size", 3}});
  CHECK(hf::gguf_gaps(model).empty());
  std::string const ffn = "transformer.blocks.1.ffn.";
  std::vector<hf::named_shape> const parameters = {
      {ffn + "experts.mlp.v1", {4, 3}},      {ffn + "experts.mlp.w2", {4, 3}},
      {ffn + "shared_expert.w2", {3, 2}},    {ffn + "shared_expert_gate.weight", {1, 3}},
      {ffn + "router.layer.weight", {2, 3}}, {"lm_head.weight", {6, 3}}};
  auto const sources = hf::gguf_sources(model, parameters, hf::precision::bf16);
  REQUIRE(sources.size() == 6);
  CHECK(sources[0].tensor.name == "blk.1.ffn_up_exps.weight");
  CHECK(sources[0].tensor.extents == std::vector<index>{2, 2, 3});
  CHECK(elements_of(sources[0], parameters) ==
        std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(sources[1].tensor.name == "blk.1.ffn_down_exps.weight");
  CHECK(sources[1].tensor.extents == std::vector<index>{2, 3, 2});
  CHECK(elements_of(sources[1], parameters) ==
        std::vector<float>{1000, 1003, 1001, 1004, 1002, 1005, 1006, 1009, 1007, 1010, 1008, 1011});
  CHECK(sources[2].tensor.extents == std::vector<index>{2, 3});
  CHECK(elements_of(sources[2], parameters) ==
        std::vector<float>{2000, 2002, 2004, 2001, 2003, 2005});
  CHECK(sources[3].tensor.name == "blk.1.ffn_gate_inp_shexp.weight");
  CHECK(sources[3].tensor.extents == std::vector<index>{3});
  CHECK(sources[4].tensor.type == element_type::f32);
  auto normalised = model;
  normalised.experts->weight_norm = 1;
  CHECK(hf::gguf_gaps(normalised) ==
        std::vector<std::string>{"weights of experts are normalised, which it does not do"});
}

TEST_CASE("gguf model: Gemma's norms are stored as 1 + weight, and nothing else") {
  std::vector<hf::named_shape> const parameters = {
      {"transformer.blocks.0.post_norm_1.weight", {2}},
      {"transformer.blocks.0.ffn.up_proj.weight", {2, 1}}};
  auto const model = read_family("gemma2", {{"head_dim", 8}});
  auto const sources = hf::gguf_sources(model, parameters, hf::precision::fp32);
  CHECK(sources[0].tensor.name == "blk.0.post_attention_norm.weight");
  CHECK(elements_of(sources[0], parameters) == std::vector<float>{1, 2});
  CHECK(elements_of(sources[1], parameters) == std::vector<float>{1000, 1001});
}

TEST_CASE("gguf model: what an architecture computes beyond the common settings has no gap") {
  using change = std::function<void(model_config&)>;
  struct example {
    std::string family;
    nlohmann::json fields;
    change change_model;
    std::string gap;
  };
  std::vector<example> const examples = {
      {"olmo2", {}, [](auto& m) { m.attn.qk_norm_eps = 1e-3; }, "qk_ln"},
      {"smollm3",
       {{"num_hidden_layers", 5}},
       [](auto& m) { m.layers[0].nope = true; },
       "block_overrides"},
      {"granite",
       {{"embedding_multiplier", 12}, {"logits_scaling", 8}},
       [](auto& m) { m.branch_norms = mpt::norm_position::both; },
       "branch_norms"},
      {"gemma", {{"head_dim", 8}}, [](auto& m) { m.embedding_scale = 3; }, "embedding_scale"},
      {"gemma2",
       {{"head_dim", 8}, {"query_pre_attn_scalar", 8}},
       [](auto& m) { m.final_logit_softcapping.reset(); },
       "attn_logit_softcapping"},
      {"gemma3_text",
       {{"head_dim", 8}, {"query_pre_attn_scalar", 8}, {"num_hidden_layers", 7}},
       [](auto& m) { m.layers[0].rope_theta = 100; },
       "block_overrides"},
      {"glm4", {{"head_dim", 8}}, [](auto& m) { m.residual_scale = 0.5; }, "residual_scale"},
      {"phi3", {}, [](auto& m) { m.attn.sliding_window_size = 5; }, "a window"}};
  for (auto const& item : examples) {
    CAPTURE(item.family);
    auto model = read_family(item.family, item.fields);
    CHECK(hf::gguf_gaps(model).empty());
    item.change_model(model);
    auto const has_words = [&](std::string const& gap) { return test::contains(gap, item.gap); };
    CHECK(std::ranges::any_of(hf::gguf_gaps(model), has_words));
  }
}

TEST_CASE("gguf model: Granite's factors and LongRoPE's are fields and tensors") {
  auto const granite = read_family("granite", {{"embedding_multiplier", 12},
                                               {"residual_multiplier", 0.5},
                                               {"logits_scaling", 8},
                                               {"attention_multiplier", 0.25}});
  auto const fields = hf::gguf_model_fields(granite, hf::precision::fp32, "m");
  for (auto const& [name, value] : {std::pair("embedding_scale", 12.0F),
                                    {"residual_scale", 0.5F},
                                    {"logit_scale", 8.0F},
                                    {"attention.scale", 0.25F}}) {
    auto const found =
        std::ranges::find(fields, std::string("granite.") + name, &hf::gguf_field::name);
    REQUIRE(found != fields.end());
    CHECK(found->value == hf::gguf_value(value));
  }
  auto const phi3 = read_family(
      "phi3",
      {{"original_max_position_embeddings", 16},
       {"rope_scaling",
        {{"type", "longrope"}, {"short_factor", {1, 2, 3, 4}}, {"long_factor", {5, 6, 7, 8}}}}});
  auto const sources = hf::gguf_sources(phi3, {}, hf::precision::bf16);
  REQUIRE(sources.size() == 2);
  CHECK(sources[0].tensor.name == "rope_factors_long.weight");
  CHECK(elements_of(sources[0], {}) == std::vector<float>{5, 6, 7, 8});
  CHECK(hf::gguf_notes(phi3).size() == 1);
}

}  // namespace gguf_model_test
