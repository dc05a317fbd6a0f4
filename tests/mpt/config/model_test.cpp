// Tests of the model's counts against LLM Foundry's published ones and against real weight files.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/model.hpp>
#include <mpt/config/model/sizes.hpp>
#include <support/data.hpp>

namespace model_test {

struct row {
  std::string name;
  std::int64_t yaml_form;
  std::int64_t alibi_no_bias;  ///< with vocabulary 50368
  double flops;                ///< 6N + 12LdS at S = 2048, as published
};

TEST_CASE("model sizes: parameters and FLOPs of all nine equal the published ones") {
  row const rows[] = {{"125m", 125'311'488, 123'636'480, 9.784e+08},
                      {"350m", 355'985'408, 353'616'896, 2.74e+09},
                      {"760m", 760'470'528, 756'917'760, 5.469e+09},
                      {"1b", 1'315'950'592, 1'311'213'568, 9.104e+09},
                      {"3b", 2'651'837'440, 2'645'690'880, 1.792e+10},
                      {"7b", 6'658'859'008, 6'649'024'512, 4.317e+10},
                      {"13b", 12'853'954'560, 12'841'210'880, 8.216e+10},
                      {"30b", 29'975'214'080, 29'956'742'144, 1.883e+11},
                      {"70b", 64'862'437'376, 64'838'443'008, 4.053e+11}};
  for (row const& expected : rows) {
    CAPTURE(expected.name);
    auto const model = mpt::named_size(expected.name);
    CHECK(mpt::parameter_count(model) == expected.yaml_form);
    std::int64_t const d = model.d_model;
    std::int64_t const layers = model.n_layers;
    CHECK(mpt::non_embedding_parameter_count(model) == layers * (12 * d * d + 13 * d) + 2 * d);
    CHECK(mpt::flops_per_token(model, 2048) == 6 * expected.yaml_form + 12 * layers * d * 2048);
    CHECK(static_cast<double>(mpt::flops_per_token(model, 2048)) ==
          doctest::Approx(expected.flops).epsilon(5e-4));
    CHECK(mpt::flops_per_token(model, 2048) - mpt::causal_flops_per_token(model, 2048) ==
          6 * layers * d * 2047);
    auto hub = mpt::hub_form(model);
    hub.vocab_size = 50368;
    CHECK(mpt::parameter_count(hub) == expected.alibi_no_bias);
  }
}

TEST_CASE("model sizes: the hub's 7B has as many parameters as its weight file") {
  auto const model = mpt::hub_form(mpt::named_size("7b"));
  CHECK(mpt::parameter_count(model) == 6'649'286'656);
  auto const folder = test::data_folder();
  if (folder.empty()) return;
  std::ifstream file(folder / "mpt" / "mpt-7b-instruct_state_dict_shapes.txt");
  std::int64_t total = 0;
  for (std::string line; std::getline(file, line);) {
    auto const open = line.find('[');
    if (open == std::string::npos) continue;
    std::int64_t volume = 1;
    std::int64_t extent = 0;
    for (char const c : line.substr(open + 1)) {
      if (c >= '0' && c <= '9') extent = extent * 10 + (c - '0');
      if (c == ',' || c == ']') {
        volume *= extent;
        extent = 0;
      }
    }
    total += volume;
  }
  CHECK(total == mpt::parameter_count(model));
}

TEST_CASE("parameter_count: every option counts its own parameters") {
  mpt::model_config model;
  model.d_model = 64;
  model.n_heads = 4;
  model.n_layers = 3;
  model.vocab_size = 100;
  model.max_seq_len = 16;
  auto const base = mpt::parameter_count(model);
  CHECK(base == 116 * 64 + 3 * (12 * 64 * 64 + 13 * 64) + 2 * 64);
  auto changed = model;
  changed.attn.qk_ln = true;
  CHECK(mpt::parameter_count(changed) - base == 3 * 4 * 64);
  changed.no_bias = true;
  changed.attention_bias = true;
  // neither norms nor FFN nor out_proj have a bias then; Wqkv keeps its own
  CHECK(mpt::parameter_count(changed) ==
        116 * 64 + 3 * (12 * 64 * 64 + 3 * 64 + 2 * 64 + 2 * 64) + 64);
  changed = model;
  changed.attention_bias = false;
  CHECK(base - mpt::parameter_count(changed) == 3 * 3 * 64);
  changed = model;
  changed.expansion_ratio = 2.5;
  CHECK(mpt::ffn_hidden(changed) == 160);
  CHECK(base - mpt::parameter_count(changed) == 3 * (2 * 64 + 1) * (256 - 160));
  changed.ffn_hidden_size = 256;
  CHECK(mpt::parameter_count(changed) == base);
  changed.ffn_type = mpt::ffn_kind::mptglu;
  CHECK(mpt::parameter_count(changed) - base == 3 * (64 + 1) * 256);
  changed = model;
  changed.norm_type = mpt::norm_kind::rmsnorm;
  CHECK(base - mpt::parameter_count(changed) == (3 * 2 + 1) * 64);
  changed = model;
  changed.tie_word_embeddings = false;
  CHECK(mpt::parameter_count(changed) - base == 100 * 64);
  CHECK(mpt::active_parameter_count(changed) == base);
  CHECK(mpt::flops_per_token(changed, 16) == mpt::flops_per_token(model, 16));
  changed = model;
  changed.attn.kv_n_heads = 2;  // K and V are half as wide
  CHECK(base - mpt::parameter_count(changed) == 3 * 2 * (64 + 1) * 32);
  changed.attn.qk_ln = true;
  CHECK(base - mpt::parameter_count(changed) == 3 * (2 * (64 + 1) * 32 - 2 * (64 + 32)));
  changed.attn.qk_ln = false;
  changed.attn.qk_gn = true;  // shared by the heads
  CHECK(base - mpt::parameter_count(changed) == 3 * (2 * (64 + 1) * 32 - 2 * (16 + 16)));
  auto const normed = mpt::parameter_count(changed);
  changed.layers.resize(3);
  changed.layers[1].reuse_kv_layer_idx = -1;  // no K, no V, no norm of K
  CHECK(normed - mpt::parameter_count(changed) == 2 * (64 + 1) * 32 + 2 * 16);
  CHECK(mpt::flops_per_token(changed, 16) == 6 * mpt::parameter_count(changed) + 12 * 3 * 64 * 16);
}

TEST_CASE("key_source: a layer that reuses keys leads to the layer that computes them") {
  mpt::model_config model;
  model.n_layers = 5;
  CHECK(mpt::key_source(model, 4) == 4);
  model.layers.resize(5);
  model.layers[1].reuse_kv_layer_idx = -1;
  model.layers[2].reuse_kv_layer_idx = -1;
  model.layers[4].reuse_kv_layer_idx = -2;
  std::string sources;
  for (std::int64_t i = 0; i < 5; ++i) sources += std::to_string(mpt::key_source(model, i));
  CHECK(sources == "00030");
}

TEST_CASE("causal FLOPs: count the keys inside each layer's window") {
  mpt::model_config model;
  model.d_model = 64;
  model.n_layers = 3;
  auto const weights = 6 * mpt::parameter_count(model);
  CHECK(mpt::causal_flops_per_token(model, 10) - weights == 6 * 3 * 64 * 11);
  model.attn.sliding_window_size = 3;  // 1 + 2 + 3 + 4 * 7 pairs
  CHECK(mpt::causal_flops_per_token(model, 10) - weights == 12 * 64 * 3 * 34 / 10);
  model.layers.resize(3);
  model.layers[1].sliding_window_size = -1;
  CHECK(mpt::causal_flops_per_token(model, 10) - weights == 12 * 64 * (2 * 34 + 55) / 10);
  CHECK(mpt::flops_per_token(model, 10) - weights == 12 * 64 * (2 * 4 + 10));
}

TEST_CASE("model: derived numbers follow LLM Foundry's rules") {
  auto model = mpt::named_size("125m");
  CHECK(mpt::head_dim(model) == 64);
  CHECK(mpt::softmax_scale(model.attn, mpt::head_dim(model)) == 0.125);
  CHECK(mpt::residual_divisor(model) == std::sqrt(24.0));
  model.init.init_div_is_residual = false;
  CHECK(mpt::residual_divisor(model) == 1);
  model.init.init_div_is_residual = 3.0;
  CHECK(mpt::residual_divisor(model) == 3);
  model.init.name = mpt::init_scheme::neox;
  CHECK(mpt::residual_divisor(model) == 12 / std::sqrt(10.0));
}

TEST_CASE("model: the counts of the largest allowed shape fit 64 bits") {
  mpt::model_config model;
  model.d_model = mpt::largest_d_model;
  model.n_heads = 1;
  model.n_layers = mpt::largest_n_layers;
  model.ffn_hidden_size = mpt::largest_ffn;
  model.vocab_size = mpt::largest_vocab;
  model.max_seq_len = mpt::largest_seq_len;
  model.ffn_type = mpt::ffn_kind::mptglu;
  model.tie_word_embeddings = false;
  mpt::check_model(model, "");
  CHECK(mpt::flops_per_token(model, mpt::largest_seq_len) > 0);
  CHECK(static_cast<double>(mpt::flops_per_token(model, mpt::largest_seq_len)) < 9.2e18);
  model.n_layers += 1;
  CHECK_THROWS_WITH_AS(mpt::check_model(model, "here: "),
                       "here: n_layers must be from 1 to 4096, found 4097", parallel::error);
}

}  // namespace model_test
