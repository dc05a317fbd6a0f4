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

/// What a name says of a model.
struct known_shape {
  std::string_view name;
  bool gated = true;  // a gated FFN, norms without centring, rotary positions, no biases
  int heads = 0;      // 0: a head for every 128 columns
  int key_heads = 0;  // 0: as many as heads
  int hidden = 0;     // of the FFN; 0: 4 d, or 8 d / 3 where it is gated
  int vocabulary = 50304;
  bool is_tied = false;  // the head is the embedding
  int width = 0;         // 0: the row says it
  int layers = 0;        // 0: the row says it
};

constexpr std::array<known_shape, 41> known_shapes{{
    {"llama3 405b", true, 128, 8, 53248, 128256, false, 16384, 126},
    {"llama3 70b", true, 64, 8, 28672, 128256, false, 8192, 80},
    {"llama3 3b", true, 24, 8, 8192, 128256, true, 3072, 28},
    {"llama3 1b", true, 32, 8, 8192, 128256, true, 2048, 16},
    {"mistral 7b", true, 32, 8, 14336, 32000, false, 4096, 32},
    {"llama3 8b", true, 32, 8, 14336, 128256, false, 4096, 32},
    {"llama2 70b", true, 64, 8, 28672, 32000, false, 8192, 80},
    {"llama2 13b", true, 40, 0, 13824, 32000, false, 5120, 40},
    {"llama2 7b", true, 32, 0, 11008, 32000, false, 4096, 32},
    {"llama 13b", true, 40, 0, 13824, 128000, false, 5120, 40},
    {"llama 30b", true, 52, 0, 17920, 128000, false, 6656, 60},
    {"llama 65b", true, 64, 0, 22016, 128000, false, 8192, 80},
    {"qwen2.5 0.5b", true, 14, 2, 4864, 151936, true, 896, 24},
    {"qwen2.5 1.5b", true, 12, 2, 8960, 151936, true, 1536, 28},
    {"qwen2.5 3b", true, 16, 2, 11008, 151936, true, 2048, 36},
    {"qwen2.5 7b", true, 28, 4, 18944, 152064, false, 3584, 28},
    {"qwen2.5 14b", true, 40, 8, 13824, 152064, false, 5120, 48},
    {"qwen2.5 32b", true, 40, 8, 27648, 152064, false, 5120, 64},
    {"qwen3 8b", true, 32, 8, 12288, 151936, false, 4096, 36},
    {"qwen3 14b", true, 40, 8, 17408, 151936, false, 5120, 40},
    {"qwen3 32b", true, 64, 8, 25600, 151936, false, 5120, 64},
    {"mpt 125m", false, 12, 0, 0, 50368, true, 768, 12},
    {"mpt 350m", false, 16, 0, 0, 50368, true, 1024, 24},
    {"mpt 760m", false, 12, 0, 0, 50368, true, 1536, 24},
    {"mpt 1b", false, 16, 0, 0, 50368, true, 2048, 24},
    {"mpt 3b", false, 20, 0, 0, 50368, true, 2560, 32},
    {"mpt 7b", false, 32, 0, 0, 50368, true, 4096, 32},
    {"mpt 13b", false, 40, 0, 0, 50368, true, 5120, 40},
    {"mpt 30b", false, 56, 0, 0, 50368, true, 7168, 48},
    {"mpt 70b", false, 64, 0, 0, 50368, true, 8192, 80},
    {"mpt", false, 0, 0, 0, 50368, true},
    {"bloom", false, 0, 0, 0, 250880, true},
    {"untied gpt", false, 0, 0, 0, 51200},
    {"gated gpt", true, 0, 0, 0, 51200, true},
    {"gpt 1t", false, 160, 0, 0, 51200, true},
    {"gpt3 175b", false, 96, 0, 0, 51200, true, 12288, 96},
    {"opt", false, 0, 0, 0, 50272, true},
    {"gpt", false, 0, 0, 0, 51200, true},
    {"nemotron4 340b", false, 96, 8, 73728, 256000, false, 18432, 96},
    {"nemotron4", false, 48, 8, 0, 256000},
    {"nemotron3", false, 0, 0, 0, 256000},
}};

/// A name in small letters, without spaces, dashes and underscores.
[[nodiscard]] std::string spelled_plainly(std::string_view name) {
  std::string out;
  for (char const c : name)
    if (c != ' ' && c != '-' && c != '_')
      out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

/// The name of a row's model in plain spelling, without the versions of Llama 3, which have the
/// same shapes.
[[nodiscard]] std::string model_name(published_row const& row) {
  auto name = spelled_plainly(row.text("model"));
  for (std::string_view const version : {"llama3.1", "llama3.2", "llama3.3"})
    if (auto const found = name.find(version); found != std::string::npos)
      name.erase(found + version.size() - 2, 2);
  return name;
}

/// The first known shape whose name is a part of the model's.
[[nodiscard]] known_shape shape_of(published_row const& row) {
  auto const name = model_name(row);
  for (auto const& shape : known_shapes)
    if (name.find(spelled_plainly(shape.name)) != std::string::npos) return shape;
  if (row.number("heads") && row.number("ffn") && row.number("vocab")) return {};
  parallel::fail("its model '", row.text("model"),
                 "' is not known; give the columns heads, ffn and vocab");
}

/// The width and the layers of a model.
struct model_extents {
  int width = 0;
  int layers = 0;
};

/// The size of a model with GPT-3's ratio of 128 columns for every layer that has this many
/// parameters: 12 l d^2 + v d, in columns of 1 024 and layers that divide into `stages`.
[[nodiscard]] model_extents size_of_parameters(double parameters, int vocabulary, int stages) {
  double const width = std::cbrt(parameters * 128 / 12);
  double const d = 1024 * std::max(1.0, std::round(width / 1024));
  double const layers = (parameters - vocabulary * d) / (12 * d * d) / stages;
  return {static_cast<int>(d), stages * std::max(1, static_cast<int>(std::lround(layers)))};
}

/// The size of a row's model: as it says, else that of the model of its name, else of a model with
/// as many parameters.
[[nodiscard]] model_extents size_of(published_row const& row, known_shape const& shape) {
  auto const named = [](int value) { return value > 0 ? std::optional(value) : std::nullopt; };
  if (auto const parameters = row.number("params"); parameters && row.has_derived_size())
    return size_of_parameters(*parameters, shape.vocabulary, row.whole("pp", 1));
  return {row.whole("hidden", named(shape.width)), row.whole("layers", named(shape.layers))};
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
  auto const [width, layers] = size_of(row, shape);
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
  if (row.trains_adapters())
    out += "  peft_config: {peft_type: LORA, r: 32, lora_alpha: 32, target_modules: [Wqkv]}\n";
  return out + fmt::format("  attn_config: {{{}}}\n", attention);
}

/// The stages of a pipeline that each rank has: no more than it has layers.
[[nodiscard]] int stages_per_rank(published_row const& row) {
  auto const notes = row.text("notes");
  int const usual = notes.find("interleaved 1F1B") != std::string::npos
                        ? 2
                        : noted(notes, "interleaved ").value_or(1);
  int const stages = row.whole("vpp", noted(notes, "vp ").value_or(usual));
  return std::clamp(stages, 1,
                    std::max(1, size_of(row, shape_of(row)).layers / row.whole("pp", 1)));
}

/// A part of the names of GPUs in plain spelling, and the known cluster of such GPUs.
struct known_gpu {
  std::string_view part;
  std::string_view cluster;
};

/// The first that is a part of a GPU's name counts.
constexpr std::array<known_gpu, 14> known_gpus{{{"gb300", "gb300"},
                                                {"gb200", "gb200"},
                                                {"b300", "b300"},
                                                {"b200", "b200"},
                                                {"h200", "h200"},
                                                {"500w", "h100-500w"},
                                                {"h100", "h100"},
                                                {"a10040gb", "a100-40gb"},
                                                {"a100", "a100"},
                                                {"v100", "v100"},
                                                {"4090", "rtx4090"},
                                                {"5060ti", "rtx5060ti"},
                                                {"pro6000", "rtxpro6000"},
                                                {"mi300x", "mi300x"}}};

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

bool published_row::has_derived_size() const {
  return !(number("hidden") && number("layers")) && shape_of(*this).width == 0;
}

bool published_row::is_in_fp8() const {
  auto const precision = spelled_plainly(text("precision"));
  if (precision.find("fp8") != std::string::npos) return true;
  parallel::require(
      precision.find("bf16") != std::string::npos || precision.find("fp16") != std::string::npos,
      "its precision is ", text("precision"), "; bf16, fp16 and fp8 are predicted");
  return false;
}

bool published_row::trains_adapters() const {
  return spelled_plainly(text("notes")).find("lora") != std::string::npos;
}

std::uint64_t published_row::checksum() const {
  return checksum_.value_or(parallel::fnv1a(fields_.dump()));
}

std::optional<double> published_row::seconds() const {
  if (auto const measured = number("step_s")) return measured;
  auto const rate = number("tokens_per_s_per_gpu"),
             batch = number(number("gbs") ? "gbs" : "global_batch"), length = number("seq"),
             gpus = number("gpus");
  if (!rate || !batch || !length || !gpus) return std::nullopt;
  return *batch * *length / (*rate * *gpus);
}

std::string published_row::yaml() const {
  auto const experts = number("ep");
  auto const model = spelled_plainly(text("model"));
  bool const is_mixture =
      std::ranges::any_of(std::array{"mixtral", "deepseekv", "gptoss", "moe", "ba3b", "ba22b"},
                          [&](char const* part) { return model.find(part) != std::string::npos; });
  bool const has_experts = is_mixture || number("experts").value_or(0) > 1;
  parallel::require(!has_experts && experts.value_or(1) <= 1,
                    "its model has experts, which are not planned yet");
  int const tensor = whole("tp", 1), pipeline = whole("pp", 1), context = whole("cp", 1);
  int const gpus = whole("gpus");
  int const model_ranks = tensor * pipeline * context;
  int const data = whole("dp", std::max(1, gpus / model_ranks));
  parallel::require(data * model_ranks == gpus, "its degrees multiply to ", data * model_ranks,
                    ", but it has ", gpus, " GPUs");
  auto const batch = whole(number("gbs") ? "gbs" : "global_batch");
  auto const notes = text("notes");
  int const stages = stages_per_rank(*this);
  // where it is not stated, a microbatch for every stage, as torchtitan has
  int const usual_micro = std::max(1, batch / data / (pipeline > 1 ? pipeline * stages : 1));
  auto const micro = whole(number("mbs") ? "mbs" : "micro_batch", usual_micro);
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
                            model.find("bloom") == std::string::npos &&
                            spelled_plainly(text("gpu")).find("v100") == std::string::npos;
  out += fmt::format("parallelism:\n  tensor: {}\n  context: {}\n  pipeline: {}\n", tensor, context,
                     pipeline);
  if (divides_rows) out += "  sequence_parallel: true\n";
  if (pipeline > 1 && stages > 1)
    out += fmt::format("  schedule: interleaved\n  stages_per_rank: {}\n", stages);
  bool const recomputes =
      text("recompute").find("block") != std::string::npos || text("recompute") == "full";
  out += fmt::format("fsdp_config:\n  activation_checkpointing: {}\n", recomputes);
  if (zero == 3) out += "  reshard_after_forward: true\n";
  return out;
}

std::string published_row::device() const {
  auto const plain = spelled_plainly(text("gpu"));
  auto const found = std::ranges::find_if(known_gpus, [&](known_gpu const& known) {
    return plain.find(known.part) != std::string::npos;
  });
  parallel::require(found != known_gpus.end(), "its GPU '", text("gpu"), "' is not known");
  return std::string(found->cluster);
}

std::string published_row::cluster() const {
  auto const name = device();
  int const gpus = whole("gpus");
  bool const is_rack = name.starts_with("gb");
  int const on_node = text("notes").find("4 GPUs a node") != std::string::npos ? 4
                      : is_rack ? (gpus % 64 == 0 ? 64 : 72)
                                : 8;
  int const devices = std::min(gpus, on_node);
  parallel::require(gpus % devices == 0, "its ", gpus, " GPUs do not fill nodes of ", devices);
  return fmt::format("{}x{}x{}", name, devices, gpus / devices);
}

}  // namespace mpt
