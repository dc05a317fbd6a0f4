#include <mpt/plan/published_row.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <mpt/yaml/scalar.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/hash.hpp>
namespace mpt {
namespace {

/// What a name says of a model, beside its layers and width.
struct known_shape {
  std::string_view name;
  bool gated = true;  // a gated FFN, norms without centring, rotary positions, no biases
  int heads = 0;      // 0: a head for every 128 columns
  int key_heads = 0;  // 0: as many as heads
  int hidden = 0;     // of the FFN; 0: 4 d, or 8 d / 3 where it is gated
  int vocabulary = 50304;
  bool is_tied = false;  // the head is the embedding
};

constexpr std::array<known_shape, 26> known_shapes{{
    {"llama3.1 405b", true, 128, 8, 53248, 128256},
    {"llama3 70b", true, 64, 8, 28672, 128256},
    {"llama3 8b", true, 32, 8, 14336, 128256},
    {"llama2 70b", true, 64, 8, 28672, 32000},
    {"llama2 13b", true, 40, 0, 13824, 32000},
    {"llama2 7b", true, 32, 0, 11008, 32000},
    {"llama 13b", true, 40, 0, 13824, 128000},
    {"llama 30b", true, 52, 0, 17920, 128000},
    {"llama 65b", true, 64, 0, 22016, 128000},
    {"qwen2.5 0.5b", true, 14, 2, 4864, 151936, true},
    {"qwen2.5 1.5b", true, 12, 2, 8960, 151936, true},
    {"qwen2.5 3b", true, 16, 2, 11008, 151936, true},
    {"qwen2.5 7b", true, 28, 4, 18944, 152064},
    {"qwen2.5 14b", true, 40, 8, 13824, 152064},
    {"qwen2.5 32b", true, 40, 8, 27648, 152064},
    {"qwen3 8b", true, 32, 8, 12288, 151936},
    {"mpt 125m", false, 12, 0, 0, 50368, true},
    {"mpt 350m", false, 16, 0, 0, 50368, true},
    {"mpt 760m", false, 12, 0, 0, 50368, true},
    {"mpt", false, 0, 0, 0, 50368, true},
    {"bloom", false, 0, 0, 0, 250880, true},
    {"gpt 1t", false, 160, 0, 0, 51200, true},
    {"gpt", false, 0, 0, 0, 51200, true},
    {"untied gpt", false, 0, 0, 0, 51200},
    {"gated gpt", true, 0, 0, 0, 51200, true},
    {"nemotron3", false, 0, 0, 0, 256000},
}};

[[nodiscard]] known_shape shape_of(published_row const& row) {
  auto const name = row.text("model");
  for (auto const& shape : known_shapes)
    if (name.starts_with(shape.name)) return shape;
  parallel::fail("its model '", name, "' is not known; give the columns heads, ffn and vocab");
}

/// The number after a word in the notes of a row, as in "vp 8"; none if it is not there.
[[nodiscard]] std::optional<int> noted(std::string const& notes, std::string_view word) {
  auto const position = notes.find(word);
  if (position == std::string::npos) return std::nullopt;
  int value = 0;
  bool found = false;
  for (auto i = position + word.size(); i < notes.size() && notes[i] >= '0' && notes[i] <= '9';
       ++i) {
    value = 10 * value + (notes[i] - '0');
    found = true;
  }
  return found ? std::optional(value) : std::nullopt;
}

/// The number of heads nearest to `wanted` that divides the width.
[[nodiscard]] int heads_near(int width, int wanted) {
  for (int distance = 0; distance < width; ++distance)
    for (int const heads : {wanted - distance, wanted + distance})
      if (heads >= 1 && width % heads == 0) return heads;
  return 1;
}

/// The lines of the model.
[[nodiscard]] std::string model_lines(published_row const& row) {
  auto const shape = shape_of(row);
  int const width = row.whole("hidden"), layers = row.whole("layers");
  int const usual_heads = shape.heads > 0 ? shape.heads : heads_near(width, width / 128);
  int const heads = row.whole("heads", noted(row.text("notes"), "heads ").value_or(usual_heads));
  parallel::require(width % heads == 0, "its ", heads, " heads do not divide the width ", width);
  int const default_hidden = shape.hidden > 0 ? shape.hidden
                             : shape.gated    ? width * 8 / 3
                                              : 4 * width;
  int const key_heads = row.whole("query_groups", shape.key_heads > 0 ? shape.key_heads : heads);
  auto out = fmt::format(
      "model:\n  name: mpt_causal_lm\n  d_model: {}\n  n_heads: {}\n  n_layers: {}\n"
      "  max_seq_len: {}\n  vocab_size: {}\n  tie_word_embeddings: {}\n"
      "  ffn_config: {{ffn_type: {}, ffn_hidden_size: {}}}\n",
      width, heads, layers, row.whole("seq"), row.whole("vocab", shape.vocabulary), shape.is_tied,
      shape.gated ? "mptglu" : "mptmlp", row.whole("ffn", default_hidden));
  if (shape.gated)
    out += "  no_bias: true\n  learned_pos_emb: false\n  norm_type: low_precision_rmsnorm\n";
  std::string attention = shape.gated ? "rope: true" : "";
  if (key_heads != heads)
    attention += fmt::format("{}attn_type: grouped_query_attention, kv_n_heads: {}",
                             attention.empty() ? "" : ", ", key_heads);
  return out + fmt::format("  attn_config: {{{}}}\n", attention);
}

}  // namespace

std::string published_row::text(std::string_view column) const {
  auto const found = fields_.find(std::string(column));
  return found == fields_.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::optional<double> published_row::number(std::string_view column) const {
  auto const field = text(column);
  if (field.empty()) return std::nullopt;
  auto const value = parse_number(field);
  parallel::require(value && std::isfinite(*value), "its ", column, " is '", field,
                    "', not a number");
  return value;
}

int published_row::whole(std::string_view column, std::optional<int> fallback) const {
  auto const value = number(column);
  if (!value && fallback) return *fallback;
  parallel::require(value.has_value(), "it has no ", column);
  parallel::require(*value >= 1 && *value <= 1e9 && *value == std::floor(*value), "its ", column,
                    " is ", text(column), ", not a whole number above 0");
  return static_cast<int>(*value);
}

std::uint64_t published_row::checksum() const {
  return checksum_.value_or(parallel::fnv1a(fields_.dump()));
}

std::optional<double> published_row::seconds() const {
  if (auto const measured = number("step_s")) return measured;
  auto const rate = number("tokens_per_s_per_gpu"), batch = number("global_batch"),
             length = number("seq"), gpus = number("gpus");
  if (!rate || !batch || !length || !gpus) return std::nullopt;
  return *batch * *length / (*rate * *gpus);
}

std::string published_row::yaml() const {
  auto const experts = number("ep");
  bool const has_experts = text("model").find("mixtral") != std::string::npos ||
                           text("model").find("-a3b") != std::string::npos ||
                           text("model").find("-a22b") != std::string::npos ||
                           number("experts").value_or(0) > 1;
  parallel::require(!has_experts && experts.value_or(1) <= 1,
                    "its model has experts, which are not planned yet");
  int const tensor = whole("tp", 1), pipeline = whole("pp", 1), context = whole("cp", 1);
  int const gpus = whole("gpus");
  int const model_ranks = tensor * pipeline * context;
  int const data = whole("dp", std::max(1, gpus / model_ranks));
  parallel::require(data * model_ranks == gpus, "its degrees multiply to ", data * model_ranks,
                    ", but it has ", gpus, " GPUs");
  auto const batch = whole(number("gbs") ? "gbs" : "global_batch");
  auto const micro = whole(number("mbs") ? "mbs" : "micro_batch");
  auto const notes = text("notes");
  int const zero = static_cast<int>(number("zero").value_or(0));
  std::string out = fmt::format("max_seq_len: {0}\n", whole("seq")) + model_lines(*this);
  out += fmt::format(
      "tokenizer: {{name: none}}\n"
      "train_loader:\n  name: text\n  dataset: {{local: none, split: train, max_seq_len: {}, "
      "shuffle: false}}\n"
      "scheduler: {{name: constant_with_warmup, t_warmup: 0ba}}\n"
      "optimizer: {{name: decoupled_adamw, lr: 1.0e-4}}\n"
      "max_duration: 1ba\neval_interval: 0ba\nprecision: amp_bf16\n"
      "global_train_batch_size: {}\ndevice_train_microbatch_size: {}\nzero_stage: {}\n",
      whole("seq"), batch, micro, zero);
  bool const divides_rows = tensor > 1 &&
                            notes.find("sequence parallel False") == std::string::npos &&
                            text("model").find("bloom") == std::string::npos &&
                            text("gpu").find("V100") == std::string::npos;
  out += fmt::format("parallelism:\n  tensor: {}\n  context: {}\n  pipeline: {}\n", tensor, context,
                     pipeline);
  if (divides_rows) out += "  sequence_parallel: true\n";
  int const stages =
      whole("vpp", noted(notes, "vp ").value_or(noted(notes, "interleaved ").value_or(1)));
  if (pipeline > 1 && stages > 1)
    out += fmt::format("  schedule: interleaved\n  stages_per_rank: {}\n", stages);
  bool const recomputes =
      text("recompute").find("block") != std::string::npos || text("recompute") == "full";
  out += fmt::format("fsdp_config:\n  activation_checkpointing: {}\n", recomputes);
  if (zero == 3) out += "  reshard_after_forward: true\n";
  return out;
}

std::string published_row::cluster() const {
  auto const gpu = text("gpu");
  int const gpus = whole("gpus");
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> names{
      {{"B300", "b300"},
       {"RTXPRO6000", "rtxpro6000"},
       {"MI300X", "mi300x"},
       {"H100-80GB", "h100"},
       {"H200", "h200"},
       {"A100-80GB", "a100"},
       {"B200", "b200"},
       {"GB200", "gb200"},
       {"GB300", "gb300"},
       {"V100-32GB", "v100"},
       {"RTX4090", "rtx4090"},
       {"H100-96GB-HBM2e-500W", "h100"}}};
  auto const found =
      std::ranges::find(names, gpu, &std::pair<std::string_view, std::string_view>::first);
  parallel::require(found != names.end(), "its GPU '", gpu, "' is not known");
  bool const is_rack = found->second.starts_with("gb");
  int const usual = is_rack ? 72 : noted(text("notes"), "; 4 GPUs a node") ? 4 : 8;
  int const on_node = text("notes").find("4 GPUs a node") != std::string::npos ? 4
                      : is_rack && gpus % 64 == 0                              ? 64
                                                                               : usual;
  int const devices = std::min(gpus, on_node);
  parallel::require(gpus % devices == 0, "its ", gpus, " GPUs do not fill nodes of ", devices);
  return fmt::format("{}x{}x{}", found->second, devices, gpus / devices);
}

}  // namespace mpt
