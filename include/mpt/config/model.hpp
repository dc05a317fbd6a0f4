// model_config: the shape of a model, an MPT or one of another family, with LLM Foundry's field
// names and defaults.
//
// Two published forms: (a) LLM Foundry's YAMLs (learned positions, biases, vocabulary 50368), which
// the defaults give, and (b) the Hugging Face hub's (ALiBi, no bias anywhere, vocabulary 50432),
// see sizes.hpp. This header holds only plain values, so that the model includes no parser. The
// number of parameters, with V the vocabulary, d the width, L the layers, S the positions, h the
// width of the FFN, is
//   N = V d + [S d] + L (2 d^2 + 2 d g + 2 d h + 2 d + biases: 2 d + 2 g, h + d, 2 d
//       qk_ln: d + g, biases d + g) + d [+ d],     g = d kv_heads / heads,
// where all heads together are as wide as the model; if they have another width w, attention has
// 2 d w + 2 d g and biases w + 2 g and d in place of its terms. A layer that reuses keys has
// 2 d g fewer (biases 2 g, qk_ln g, bias g). A gated FFN adds L (d h + bias: h), an untied lm_head
// adds V d; norms on both sides add 2 d (biases 2 d); with rmsnorm no norm has a bias. For form (a)
// with g = d, h = 4d the number is V d + S d + L (12 d^2 + 13 d) + 2 d.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <mpt/config/model/attention.hpp>
#include <mpt/config/model/experts.hpp>
#include <mpt/config/model/lora.hpp>
#include <mpt/config/model/norm_kind.hpp>
#include <parallel/core/error.hpp>
#include <parallel/ops/pointwise/activation.hpp>

namespace mpt {

/// `ffn_config.ffn_type`: down(f(up(x))), or gated: down(f(gate(x)) * up(x)).
enum class ffn_kind { mptmlp, mptglu };

/// Where the norms of attention and of the FFN are: in front of them, behind them, before their
/// results are added to the residual stream, or on both sides.
enum class norm_position { input, output, both };

/// LLM Foundry's `init_config.name`.
enum class init_scheme {
  torch_default,
  baseline,
  kaiming_uniform,
  kaiming_normal,
  neox,
  small,
  xavier_uniform,
  xavier_normal
};

/// `init_config`: initial distributions.
struct init_config {
  init_scheme name = init_scheme::kaiming_normal;
  std::optional<double> emb_init_std;                         ///< normal(0, std) for wte and wpe
  std::optional<std::array<double, 2>> emb_init_uniform_lim;  ///< uniform(a, b) for wte and wpe
  std::variant<bool, double> init_div_is_residual = true;     ///< see residual_divisor
  std::optional<double> init_std;                             ///< for baseline
  double init_gain = 0;                                       ///< kaiming's `a`, xavier's gain
  std::string fan_mode = "fan_in";                            ///< or fan_out
  std::string init_nonlinearity = "relu";                     ///< relu, leaky_relu, linear, tanh...

  friend bool operator==(init_config const&, init_config const&) = default;
};

/// The config.json that a family's model was read from, with a run's overrides; "": there is none.
/// It says again what the other settings say, so that it counts in no comparison.
struct stored_config {
  std::string text;

  friend bool operator==(stored_config const&, stored_config const&) { return true; }
};

/// `model`.
struct model_config {
  std::string family = "mpt";  ///< `model_type` of the Hugging Face files that it is written as
  std::int64_t d_model = 2048;
  std::int64_t n_heads = 16;
  std::optional<std::int64_t> head_dim;  ///< width of a head; none: d_model / n_heads
  std::int64_t n_layers = 24;
  double expansion_ratio = 4;                   ///< FFN width / d_model; the width must be whole
  std::optional<std::int64_t> ffn_hidden_size;  ///< overrides expansion_ratio
  std::int64_t max_seq_len = 2048;              ///< positions of wpe; the longest sequence
  std::int64_t vocab_size = 50368;
  double resid_pdrop = 0;
  double emb_pdrop = 0;
  bool learned_pos_emb = true;         ///< always false with ALiBi
  bool no_bias = false;                ///< no bias in FFN and norms
  std::optional<bool> attention_bias;  ///< whether Wqkv has a bias; none: the opposite of no_bias
  std::optional<bool> out_proj_bias;   ///< whether out_proj has one; none: the opposite of no_bias
  bool parallel_residual = false;      ///< the FFN reads the block's input, as attention does
  std::optional<bool> norm_bias;       ///< whether layernorms have one; none: not with no_bias
  norm_position branch_norms = norm_position::input;
  norm_kind norm_type = norm_kind::low_precision_layernorm;
  double norm_eps = 1e-5;
  bool norm_unit_offset = false;      ///< norms multiply by 1 + weight
  double embedding_scale = 1;         ///< factor of tokens' embeddings, rounded to their type
  double residual_scale = 1;          ///< factor of attention's and the FFN's results
  double embedding_fraction = 1;      ///< share of the embeddings' gradient that is kept
  std::optional<double> logit_scale;  ///< logits are multiplied by it
  std::optional<double> final_logit_softcapping;  ///< cap c after scaling: c tanh(logits / c)
  bool tie_word_embeddings = true;                ///< false: a separate lm_head without bias
  ffn_kind ffn_type = ffn_kind::mptmlp;           ///< with experts: the form of each of them
  std::optional<experts_config> experts;          ///< none: feed-forward layers are dense
  bool fused_gate = false;  ///< `ffn_config.fused_gate`: one gate_up_proj for gate and up
  parallel::ops::activation_kind ffn_act_fn = parallel::ops::activation_kind::gelu;
  attention_config attn;
  std::vector<layer_override> layers;  ///< `block_overrides` layer by layer; empty: all are alike
  init_config init;
  std::optional<lora_config> lora;  ///< adapters of some linear layers
  stored_config stored = {};
  /// Bytes of the logits that exist at once in training; no key sets it, tests do
  std::int64_t logits_bytes = std::int64_t{9} << 26;

  friend bool operator==(model_config const&, model_config const&) = default;
};

/// The decay of the fastest-fading pair of a head with xpos over xpos_scale_base positions: ln 3.5.
inline constexpr double largest_xpos_decay = 1.2527629684953681;

/// Bounds that keep every count below in 64 bits, also six times the number of parameters.
inline constexpr std::int64_t largest_d_model = std::int64_t{1} << 17;
/// The largest hidden width of a feed-forward layer that is read.
inline constexpr std::int64_t largest_ffn = std::int64_t{1} << 20;
/// The largest number of blocks that is read.
inline constexpr std::int64_t largest_n_layers = std::int64_t{1} << 12;
/// The largest sequence length that is read.
inline constexpr std::int64_t largest_seq_len = std::int64_t{1} << 22;
/// The largest vocabulary that is read.
inline constexpr std::int64_t largest_vocab = std::int64_t{1} << 24;

/// Width of the FFN's hidden layer.
[[nodiscard]] std::int64_t ffn_hidden(model_config const& model);

/// The width of a head.
[[nodiscard]] std::int64_t head_dim(model_config const& model);

/// Whether `head_dim` is given and is d_model / n_heads, so that it need not be given.
[[nodiscard]] bool is_default_head_dim(model_config const& model);

/// Width of all query heads together.
[[nodiscard]] std::int64_t query_width(model_config const& model);

/// Whether a norm of this kind has a bias in addition to its weight.
[[nodiscard]] bool has_norm_bias(model_config const& model, norm_kind kind);

/// Whether attention and FFN have norms in front of them.
[[nodiscard]] bool has_input_norms(model_config const& model);

/// Whether attention and FFN have norms behind them.
[[nodiscard]] bool has_output_norms(model_config const& model);

/// The number of key heads, which is that of value heads.
[[nodiscard]] std::int64_t kv_heads(model_config const& model);

/// `attn_config` of layer i, overrides applied.
[[nodiscard]] attention_config attention_of_layer(model_config const& model, std::int64_t i);

/// The layer whose keys and values layer i attends to: i itself, or the earlier layer to which the
/// chain of reuse_kv_layer_idx leads.
[[nodiscard]] std::int64_t key_source(model_config const& model, std::int64_t i);

/// The number of layers that attend to the keys and values of another layer.
[[nodiscard]] std::int64_t key_reuses(model_config const& model);

/// Whether Wqkv has a bias.
[[nodiscard]] bool has_attention_bias(model_config const& model);

/// Whether out_proj has a bias: in LLM Foundry unless no_bias (0.22's attention.py).
[[nodiscard]] bool has_out_proj_bias(model_config const& model);

/// The divisor of the initial values of out_proj and down_proj; 1 where they are not divided.
[[nodiscard]] double residual_divisor(model_config const& model);

/// The kind of position encoding in words, for messages.
[[nodiscard]] std::string_view positions_name(model_config const& model);

/// Fails unless a model of this shape can be built. `prefix` names the configuration's source in
/// the message.
void check_model(model_config const& model, std::string_view prefix);

/// The number of parameters outside the embedding tables (wte, wpe) and an untied lm_head.
[[nodiscard]] std::int64_t non_embedding_parameter_count(model_config const& model);

/// The number of all parameters; a tied embedding counts once.
[[nodiscard]] std::int64_t parameter_count(model_config const& model);

}  // namespace mpt
