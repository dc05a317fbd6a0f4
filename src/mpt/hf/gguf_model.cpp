#include <mpt/hf/gguf_model.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <mpt/config/model/gemma_form.hpp>
#include <mpt/hf/stored_layout.hpp>
#include <mpt/model/attention_positions.hpp>
#include <parallel/core/error.hpp>

namespace mpt::hf {
namespace {

using parallel::index;
using parallel::ops::activation_kind;

constexpr gguf_form mpt_gguf{.architecture = "mpt",
                             .activation = activation_kind::gelu_tanh,
                             .attention_biases = gguf_biases::optional,
                             .joins_projections = true};

/// llama.cpp's names of layers, by ours. A `*` stands for the number of the block.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> layer_names{
    {{"transformer.wte", "token_embd"},
     {"transformer.wpe", "position_embd"},
     {"transformer.blocks.*.norm_1", "blk.*.attn_norm"},
     {"transformer.blocks.*.attn.Wqkv", "blk.*.attn_qkv"},
     {"transformer.blocks.*.attn.Wq", "blk.*.attn_q"},
     {"transformer.blocks.*.attn.Wk", "blk.*.attn_k"},
     {"transformer.blocks.*.attn.Wv", "blk.*.attn_v"},
     {"transformer.blocks.*.attn.q_ln", "blk.*.attn_q_norm"},
     {"transformer.blocks.*.attn.k_ln", "blk.*.attn_k_norm"},
     {"transformer.blocks.*.attn.out_proj", "blk.*.attn_output"},
     {"transformer.blocks.*.post_norm_1", "blk.*.post_attention_norm"},
     {"transformer.blocks.*.norm_2", "blk.*.ffn_norm"},
     {"transformer.blocks.*.post_norm_2", "blk.*.post_ffw_norm"},
     {"transformer.blocks.*.ffn.gate_up_proj", "blk.*.ffn_up"},
     {"transformer.blocks.*.ffn.gate_proj", "blk.*.ffn_gate"},
     {"transformer.blocks.*.ffn.up_proj", "blk.*.ffn_up"},
     {"transformer.blocks.*.ffn.down_proj", "blk.*.ffn_down"},
     {"transformer.blocks.*.ffn.router.layer", "blk.*.ffn_gate_inp"},
     {"transformer.norm_f", "output_norm"},
     {"lm_head", "output"}}};

/// llama.cpp's names of matrices of experts, by ours.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> expert_names{
    {{"transformer.blocks.*.ffn.experts.mlp.w1", "blk.*.ffn_gate_exps.weight"},
     {"transformer.blocks.*.ffn.experts.mlp.v1", "blk.*.ffn_up_exps.weight"},
     {"transformer.blocks.*.ffn.experts.mlp.w2", "blk.*.ffn_down_exps.weight"},
     {"transformer.blocks.*.ffn.shared_expert_gate.weight", "blk.*.ffn_gate_inp_shexp.weight"},
     {"transformer.blocks.*.ffn.shared_expert.w1", "blk.*.ffn_gate_shexp.weight"},
     {"transformer.blocks.*.ffn.shared_expert.v1", "blk.*.ffn_up_shexp.weight"},
     {"transformer.blocks.*.ffn.shared_expert.w2", "blk.*.ffn_down_shexp.weight"}}};

/// llama.cpp's factor of queries and keys under YaRN, which no field changes in every version.
[[nodiscard]] double yarn_growth(double factor) { return 0.1 * std::log(factor) + 1; }

[[nodiscard]] bool is_gelu(activation_kind kind) {
  return kind == activation_kind::gelu || kind == activation_kind::gelu_tanh;
}

/// A list of reasons, each of which is added unless its condition holds.
class gap_list {
 public:
  template <class... Parts>
  void require(bool is_held, Parts const&... parts) {
    if (!is_held) gaps_.push_back(parallel::concat(parts...));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(gaps_); }

 private:
  std::vector<std::string> gaps_;
};

void add_attention_gaps(model_config const& model, gguf_form const& form, gap_list& gaps) {
  auto const& attn = model.attn;
  double const usual_scale = 1 / std::sqrt(static_cast<double>(head_dim(model)));
  gaps.require(!attn.softmax_scale || std::fabs(*attn.softmax_scale / usual_scale - 1) < 1e-6,
               "attn_config.softmax_scale is ", attn.softmax_scale.value_or(0),
               ", and it scales scores by 1/sqrt(head_dim) alone");
  gaps.require(!attn.attn_logit_softcapping, "scores are capped (attn_logit_softcapping)");
  gaps.require(attn.sliding_window_size < 0 || attn.sliding_window_size >= model.max_seq_len - 1,
               "attention has a window (of ", attn.sliding_window_size + 1,
               " tokens), and it attends to all tokens here; a copy whose longest sequence is no "
               "longer than the window computes the same");
  gaps.require(attn.temperature.attn_scale == 0,
               "queries have a temperature "
               "(attn_temperature_tuning)");
  gaps.require(model.layers.empty(), "layers differ from each other (block_overrides)");
  gaps.require(!attn.qk_gn, "queries and keys are normalised head by head (qk_gn)");
  gaps.require(!attn.qk_ln,
               "whole queries and keys are normalised (qk_ln), on which its present code stops "
               "with a failed assertion");
  gaps.require(!attn.qk_gn || attn.qk_norm_eps == model.norm_eps, "norms of queries and keys add ",
               attn.qk_norm_eps, ", the other norms ", model.norm_eps, ", and it has one epsilon");
  gaps.require(form.has_head_width || query_width(model) == model.d_model, "heads are ",
               query_width(model), " wide together and the model ", model.d_model,
               ", which it takes to be the same");
  bool const has_bias = has_attention_bias(model);
  gaps.require(!has_bias || form.attention_biases != gguf_biases::none,
               "projections of attention have biases");
  gaps.require(has_bias || form.attention_biases != gguf_biases::required,
               "projections of attention have no biases, which it expects");
  gaps.require(!has_bias || query_width(model) == model.d_model,
               "projections of attention have biases of another width than d_model");
}

void add_position_gaps(model_config const& model, gguf_form const& form, gap_list& gaps) {
  if (!model.attn.rope) return;
  auto const& rope = *model.attn.rope;
  gaps.require(model.family != "mpt",
               "positions are rotary, and an MPT's are learned or ALiBi's "
               "there");
  gaps.require(!rope.xpos_scale_base, "positions are xPos's");
  gaps.require(form.has_frequency_factors || !std::holds_alternative<llama3_rope>(rope.scaling),
               "rotary positions are scaled as Llama 3's are, which it holds for Llama's "
               "architecture alone");
  gaps.require(form.architecture == "phi3" || !std::holds_alternative<long_rope>(rope.scaling),
               "rotary positions are LongRoPE's, which it holds for Phi-3 alone");
  auto const* const yarn = std::get_if<yarn_rope>(&rope.scaling);
  if (yarn == nullptr) return;
  yarn_rope const with_defaults{
      .factor = yarn->factor,
      .original_max_position_embeddings = yarn->original_max_position_embeddings,
      .attention_factor = yarn->attention_factor};
  gaps.require(*yarn == with_defaults &&
                   std::fabs(yarn->attention_factor - yarn_growth(yarn->factor)) < 1e-6,
               "YaRN's beta_fast, beta_slow, truncate or attention_factor are not its defaults");
}

void add_expert_gaps(model_config const& model, gguf_form const& form, gap_list& gaps) {
  if (!model.experts) return;
  auto const& experts = *model.experts;
  gaps.require(form.experts != gguf_experts::none, "the FFN has experts");
  if (form.experts == gguf_experts::none) return;
  bool const is_normalised = form.experts == gguf_experts::normalised;
  gaps.require(experts.weight_norm == (is_normalised ? 1.0 : 0.0), "weights of experts ",
               is_normalised ? "do not add up to 1, as it makes them"
                             : "are normalised, which it does not do");
  gaps.require(experts.dense_layers.empty(), "some layers are without experts (moe_dense_layers)");
  gaps.require(!experts.shared_hidden || form.has_shared_expert,
               "there is an expert for all tokens (shared_expert)");
  gaps.require(experts.bias_rate == 0, "experts are chosen with a bias (moe_bias_update_rate)");
  gaps.require(experts.capacity_factor == 0, "experts drop tokens (moe_capacity_factor)");
  gaps.require(!experts.uniform, "tokens are given to experts evenly (uniform_expert_assignment)");
}

}  // namespace

gguf_form gguf_form_of(model_config const& model) {
  auto const* const family = find_family(model.family);
  return family == nullptr ? mpt_gguf : family->gguf;
}

std::vector<std::string> gguf_gaps(model_config const& whole_model) {
  auto const form = gguf_form_of(whole_model);
  auto model = whole_model;
  if (form.remove_held != nullptr) form.remove_held(model);
  gap_list gaps;
  gaps.require(!form.architecture.empty(), "it has no architecture for the family ", model.family);
  bool const is_mpt = model.family == "mpt";
  gaps.require(!is_mpt || !is_rms(model.norm_type),
               "norms are rmsnorm, and an MPT's are layernorm "
               "there");
  gaps.require(!is_mpt || model.ffn_type == ffn_kind::mptmlp,
               "the FFN is gated (mptglu), and an MPT's is not there");
  gaps.require(!is_mpt || !model.parallel_residual,
               "attention and FFN read the same input (parallel_residual)");
  bool const has_activation =
      is_gelu(form.activation) ? is_gelu(model.ffn_act_fn) : model.ffn_act_fn == form.activation;
  gaps.require(has_activation, "the FFN's activation is not ",
               is_gelu(form.activation) ? "gelu" : "silu", ", which it always computes");
  gaps.require(model.branch_norms == norm_position::input,
               "norms are behind attention and FFN (branch_norms)");
  gaps.require(!model.norm_unit_offset, "norms multiply by 1 + weight (norm_unit_offset)");
  gaps.require(model.embedding_scale == 1, "embeddings are scaled (embedding_scale)");
  gaps.require(model.residual_scale == 1,
               "results of attention and FFN are scaled (residual_scale)");
  gaps.require(!model.logit_scale, "logits are scaled (logit_scale)");
  gaps.require(!model.final_logit_softcapping, "logits are capped (final_logit_softcapping)");
  add_expert_gaps(model, form, gaps);
  add_attention_gaps(model, form, gaps);
  add_position_gaps(model, form, gaps);
  return gaps.take();
}

std::vector<std::string> gguf_notes(model_config const& model) {
  std::vector<std::string> notes;
  if (model.ffn_act_fn == activation_kind::gelu)
    notes.emplace_back(
        "llama.cpp computes GELU by its tanh approximation, which is off by at most 0.0005, and on "
        "CPUs rounds it to half precision");
  if (auto const* const scaling =
          model.attn.rope ? std::get_if<long_rope>(&model.attn.rope->scaling) : nullptr)
    notes.push_back(parallel::concat(
        "llama.cpp takes LongRoPE's long factors where its context is longer than ",
        scaling->original_max_position_embeddings, " tokens, whatever the length of the text"));
  return notes;
}

std::vector<gguf_field> gguf_model_fields(model_config const& model, precision type,
                                          std::string const& name) {
  auto const form = gguf_form_of(model);
  std::vector<gguf_field> fields;
  auto const general = [&](std::string_view key, gguf_value value) {
    fields.push_back({parallel::concat("general.", key), std::move(value)});
  };
  auto const add = [&](std::string_view key, gguf_value value) {
    fields.push_back({parallel::concat(form.architecture, ".", key), std::move(value)});
  };
  auto const count = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  auto const number = [](double value) { return static_cast<float>(value); };
  general("architecture", std::string(form.architecture));
  general("type", std::string("model"));
  general("name", name);
  general("quantization_version", std::uint32_t{2});  // ggml's, which readers ask for
  general("file_type", type == precision::fp32   ? std::uint32_t{0}
                       : type == precision::fp16 ? std::uint32_t{1}
                                                 : std::uint32_t{32});
  add("vocab_size", count(model.vocab_size));
  add("context_length", count(model.max_seq_len));
  add("embedding_length", count(model.d_model));
  add("block_count", count(model.n_layers));
  bool const has_one_width = model.experts && !form.has_expert_width;
  add("feed_forward_length", count(has_one_width ? expert_hidden(model) : ffn_hidden(model)));
  if (model.experts) {
    add("expert_count", count(model.experts->count));
    add("expert_used_count", count(model.experts->top_k));
    if (form.has_expert_width) add("expert_feed_forward_length", count(expert_hidden(model)));
    if (model.experts->shared_hidden)
      add("expert_shared_feed_forward_length", count(*model.experts->shared_hidden));
  }
  add("attention.head_count", count(model.n_heads));
  add("attention.head_count_kv", count(kv_heads(model)));
  add(is_rms(model.norm_type) ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
      number(model.norm_eps));
  if (form.has_head_width)
    for (char const* const key : {"attention.key_length", "attention.value_length"})
      add(key, count(head_dim(model)));
  if (model.family == "mpt")
    add("attention.max_alibi_bias", number(model.attn.alibi ? model.attn.alibi_bias_max : 0));
  if (model.attn.clip_qkv || form.architecture == "dbrx")  // 0: none
    add("attention.clamp_kqv", number(model.attn.clip_qkv.value_or(0)));
  if (form.architecture == "gptneox") add("use_parallel_residual", model.parallel_residual);
  if (form.architecture == "granite") {
    add("embedding_scale", number(model.embedding_scale));
    add("residual_scale", number(model.residual_scale));
    add("attention.scale", number(softmax_scale(model.attn, head_dim(model))));
    add("logit_scale", number(1 / model.logit_scale.value_or(1)));
  }
  if (model.attn.attn_logit_softcapping)
    add("attn_logit_softcapping", number(*model.attn.attn_logit_softcapping));
  if (model.final_logit_softcapping)
    add("final_logit_softcapping", number(*model.final_logit_softcapping));
  std::int64_t window = model.attn.sliding_window_size;
  for (auto const& layer : model.layers)
    window = std::max(window, layer.sliding_window_size.value_or(-1));
  if (form.architecture == "phi3" || form.remove_held == &remove_gemma_settings)
    add("attention.sliding_window", count(window + 1));  // 0: none
  if (!model.attn.rope) return fields;
  auto const& rope = *model.attn.rope;
  add("rope.freq_base", number(rope.theta));
  add("rope.dimension_count", count(rope.rotary_dim.value_or(head_dim(model))));
  bool const is_yarn = std::holds_alternative<yarn_rope>(rope.scaling);
  if (auto const* const scaling = std::get_if<long_rope>(&rope.scaling)) {
    add("rope.scaling.original_context_length", count(scaling->original_max_position_embeddings));
    add("rope.scaling.attn_factor", number(scaling->attention_factor));
  }
  if (!is_yarn && !std::holds_alternative<linear_rope>(rope.scaling)) return fields;
  add("rope.scaling.type", std::string(type_of(rope.scaling)));
  visit_fields(rope.scaling, [&](std::string_view key, auto const& value, field_presence) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      if (key == "factor") add("rope.scaling.factor", static_cast<float>(value));
      if (key == trained_positions_key)
        add("rope.scaling.original_context_length", static_cast<std::uint32_t>(value));
    }
  });
  return fields;
}

namespace {

/// A parameter's layer, its number of a block, and its ending (".weight").
struct parameter_name {
  std::string layer;  // with a star
  std::string block;
  std::string ending;
};

[[nodiscard]] parameter_name parse_name(std::string const& parameter) {
  constexpr std::string_view prefix = "transformer.blocks.";
  auto const dot = parameter.rfind('.');
  parameter_name name{parameter.substr(0, dot), {}, parameter.substr(dot)};
  if (!name.layer.starts_with(prefix)) return name;
  auto const end = name.layer.find('.', prefix.size());
  name.block = name.layer.substr(prefix.size(), end - prefix.size());
  name.layer = parallel::concat(prefix, "*", std::string_view(name.layer).substr(end));
  return name;
}

[[nodiscard]] std::string in_block(std::string_view pattern, parameter_name const& name) {
  return with_number(pattern, name.block) + name.ending;
}

/// Collects the tensors of a file.
class source_list {
 public:
  source_list(model_config const& model, precision type)
      : model_(model), form_(gguf_form_of(model)), type_(element_type_of(type)) {}

  void add(named_shape const& parameter) {
    auto const name = parse_name(parameter.name);
    if (add_experts(parameter, name)) return;
    auto const* const found =
        std::ranges::find(layer_names, name.layer, [](auto const& pair) { return pair.first; });
    parallel::require(found != layer_names.end(), "llama.cpp has no tensor for ", parameter.name);
    auto const layer = form_.architecture == "dbrx" && found->second == "blk.*.ffn_norm"
                           ? std::string_view("blk.*.attn_output_norm")
                           : found->second;
    constexpr std::array<std::string_view, 3> apart{"blk.*.attn_q", "blk.*.attn_k", "blk.*.attn_v"};
    bool const is_joint = layer == "blk.*.attn_qkv";
    bool const is_apart = std::ranges::find(apart, layer) != apart.end();
    if (is_joint && !form_.joins_projections) {
      index const key_rows = kv_heads(model_) * head_dim(model_);
      std::array<index, 3> const rows{query_width(model_), key_rows, key_rows};
      index row = 0;
      for (std::size_t i = 0; i < apart.size(); row += rows[i], ++i)
        append(in_block(apart[i], name), parameter, {parameter.name, row, rows[i]});
    } else {
      append(in_block(is_apart && form_.joins_projections ? "blk.*.attn_qkv" : layer, name),
             parameter, {parameter.name, 0, parameter.extents.front()});
    }
  }

  /// Adds what no parameter has a name for.
  void add_derived() {
    bool const has_output = std::ranges::any_of(
        sources_, [](gguf_source const& s) { return s.tensor.name == "output.weight"; });
    if (form_.needs_output && !has_output) {
      auto copy = sources_.front();
      parallel::require(copy.tensor.name == "token_embd.weight", "the first parameter is ",
                        copy.tensor.name, ", not the embeddings");
      copy.tensor.name = "output.weight";
      sources_.push_back(std::move(copy));
    }
    auto const& rope = model_.attn.rope;
    if (auto const* const scaling = rope ? std::get_if<long_rope>(&rope->scaling) : nullptr) {
      add_values("rope_factors_long.weight", scaling->long_factor);
      add_values("rope_factors_short.weight", scaling->short_factor);
    }
    if (!rope || !std::holds_alternative<llama3_rope>(rope->scaling)) return;
    auto const unscaled =
        parallel::ops::rope_frequencies(rope->theta, rope->rotary_dim.value_or(head_dim(model_)));
    auto const scaled = rotary_frequencies(*rope, head_dim(model_));
    std::vector<double> factors;
    for (std::size_t i = 0; i < scaled.size(); ++i) factors.push_back(unscaled[i] / scaled[i]);
    add_values("rope_freqs.weight", factors);
  }

  [[nodiscard]] std::vector<gguf_source> take() { return std::move(sources_); }

 private:
  /// Adds a matrix of each expert, or of the shared one, in which ours have rows of hidden units.
  [[nodiscard]] bool add_experts(named_shape const& parameter, parameter_name const& name) {
    auto const* const found = std::ranges::find(expert_names, name.layer + name.ending,
                                                [](auto const& pair) { return pair.first; });
    if (found == expert_names.end()) return false;
    bool const is_shared = found->second.find("_shexp") != std::string_view::npos;
    bool const is_down = found->second.find("_down_") != std::string_view::npos;
    index const count = is_shared ? 1 : model_.experts->count;
    index hidden = parameter.extents[0] / count, width = parameter.extents[1];
    bool const is_gate = found->second.find("_inp_") != std::string_view::npos;
    if (is_down) std::swap(hidden, width);
    std::vector<index> extents{count, hidden, width};
    extents.erase(extents.begin(), extents.begin() + (is_gate ? 2 : is_shared ? 1 : 0));
    sources_.push_back(
        {.tensor = {.name = in_block(found->second, {name.layer, name.block, ""}),
                    .type = is_gate ? parallel::checkpoint::element_type::f32 : type_,
                    .extents = extents},
         .rows = {{parameter.name, 0, extents.front()}},
         .is_transposed = is_down});
    return true;
  }

  void add_values(std::string const& name, std::vector<double> const& values) {
    gguf_source source{.tensor = {.name = name, .extents = {std::ssize(values)}}};
    for (double const value : values) source.values.push_back(static_cast<float>(value));
    sources_.push_back(std::move(source));
  }

  void append(std::string const& name, named_shape const& parameter, gguf_rows rows) {
    auto found = std::ranges::find(sources_, name, [](auto const& s) { return s.tensor.name; });
    if (found == sources_.end()) {
      auto extents = parameter.extents;
      extents.front() = 0;
      bool const is_narrow = extents.size() > 1 && !name.starts_with("position_embd.") &&
                             name.find(".ffn_gate_inp.") == std::string::npos;
      bool const is_turned =
          name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos;
      sources_.push_back(
          {.tensor = {.name = name,
                      .type = is_narrow ? type_ : parallel::checkpoint::element_type::f32,
                      .extents = extents},
           .interleaved_rows = form_.interleaves_rotation && is_turned ? head_dim(model_) : 0,
           .turned_rows = turned_rows(model_),
           .addend = form_.adds_one_to_norms && name.ends_with("_norm.weight") ? 1.0F : 0.0F});
      found = std::prev(sources_.end());
    }
    found->tensor.extents.front() += rows.rows;
    found->rows.push_back(std::move(rows));
  }

  model_config const& model_;
  gguf_form form_;
  parallel::checkpoint::element_type type_;
  std::vector<gguf_source> sources_;
};

/// The rows of heads in the file's order: of the `turned` rows of a head row j of the first half,
/// then row j of the second; then the others.
[[nodiscard]] std::vector<float> interleave(std::span<float const> rows, index head_rows,
                                            index turned, index width) {
  std::vector<float> out(rows.size());
  for (index row = 0; row * width < std::ssize(rows); ++row) {
    index const target = row - row % head_rows + interleaved_row(row % head_rows, turned);
    std::ranges::copy(
        rows.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width)),
        out.begin() + target * width);
  }
  return out;
}

/// The matrices of a source, each of which a parameter holds the other way round.
void for_each_transposed(gguf_source const& source, tensor_source const& read,
                         std::function<void(std::span<float const>)> const& emit) {
  auto const& extents = source.tensor.extents;
  index const rows = extents[extents.size() - 2], columns = extents.back();
  index const matrices = extents.size() > 2 ? extents.front() : 1;
  std::vector<float> stored(static_cast<std::size_t>(rows * columns)), values(stored.size());
  for (index m = 0; m < matrices; ++m) {
    read(source.rows.front().parameter, m * rows * columns, stored);
    for (index i = 0; i < rows; ++i)
      for (index j = 0; j < columns; ++j)
        values[static_cast<std::size_t>(i * columns + j)] =
            stored[static_cast<std::size_t>(j * rows + i)];
    emit(values);
  }
}

}  // namespace

std::vector<gguf_source> gguf_sources(model_config const& model,
                                      std::span<named_shape const> parameters, precision type) {
  source_list sources(model, type);
  for (auto const& parameter : parameters) sources.add(parameter);
  sources.add_derived();
  return sources.take();
}

void for_each_gguf_piece(gguf_source const& source, tensor_source const& read,
                         std::function<void(std::span<float const>)> const& emit) {
  constexpr index chunk = index{1} << 20;  // elements that are read at once, where rows allow it
  if (!source.values.empty()) return emit(source.values);
  if (source.is_transposed) return for_each_transposed(source, read, emit);
  index width = 1;
  for (index const extent : std::span(source.tensor.extents).subspan(1)) width *= extent;
  index const unit = std::max(source.interleaved_rows, index{1});
  index const rows_at_once = std::max(chunk / width / unit, index{1}) * unit;
  std::vector<float> values;
  for (auto const& [parameter, first, rows] : source.rows)
    for (index row = 0; row < rows; row += rows_at_once) {
      index const count = std::min(rows_at_once, rows - row);
      values.resize(static_cast<std::size_t>(count * width));
      read(parameter, (first + row) * width, values);
      if (source.addend != 0)
        for (float& value : values) value += source.addend;
      if (source.interleaved_rows == 0)
        emit(values);
      else
        emit(interleave(values, source.interleaved_rows, source.turned_rows, width));
    }
}

}  // namespace mpt::hf
