#include <mpt/plan/megatron_row.hpp>

#include <utility>

#include <fmt/format.h>

#include <parallel/core/error.hpp>

namespace mpt {
namespace {

[[nodiscard]] bool contains(std::string const& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

/// The model of a test as published_row knows it.
[[nodiscard]] std::string model_of(std::string const& test) {
  parallel::require(test.starts_with("gpt3"), "its model is no GPT");
  for (auto const& [word, kind] :
       {std::pair{"_mla", "latent attention"}, {"_modelopt_distill", "a teacher"}})
    parallel::require(!contains(test, word), "its model has ", kind, ", which is not planned");
  parallel::require(!contains(test, "_defer_embedding"),
                    "it keeps the logits' gradients of all microbatches, which is not planned");
  for (auto const* const word : {"_uneven_pipeline", "_account_for_embedding"})
    parallel::require(!contains(test, word), "its stages have unequal numbers of blocks");
  if (contains(test, "_swiglu")) return "gated gpt";
  bool const is_untied =
      contains(test, "untie") || contains(test, "_15b_") || contains(test, "_7b_");
  return is_untied ? "untied gpt" : "gpt";
}

/// The vocabulary of a test, extended to a multiple of 128 words a tensor rank.
[[nodiscard]] int vocabulary_of(published_row const& row, std::string const& test) {
  int const words = row.whole("vocab", contains(test, "_15b_") ? 256000 : 50257);
  int const multiple = 128 * row.whole("tp", 1);
  return (words + multiple - 1) / multiple * multiple;
}

/// Whether a test computes attention by several kernels, which keep its scores: Megatron's own
/// layers do, and Transformer Engine's in tests that are not resumed and in those of the older
/// machines, unless the context is divided.
[[nodiscard]] bool has_unfused_attention(published_row const& row) {
  auto const test = row.text("case");
  if (row.whole("cp", 1) > 1 || contains(test, "_7b_") || contains(test, "_15b_")) return false;
  return test.starts_with("gpt3_mcore_tp") || !contains(test, "resume") ||
         contains(row.text("platform"), "dracooci");
}

}  // namespace

bool is_megatron_row(nlohmann::json const& fields) {
  return fields.contains("mem_max_allocated_bytes") && fields.contains("case");
}

published_row megatron_row(nlohmann::json fields, std::string location) {
  published_row const row(fields, location);
  auto const test = row.text("case"), platform = row.text("platform");
  fields["model"] = model_of(test);
  fields["vocab"] = std::to_string(vocabulary_of(row, test));
  fields["gpu"] = contains(platform, "gb200")  ? "GB200"
                  : contains(platform, "h100") ? "H100-80GB"
                                               : "A100-80GB";
  if (row.text("gpus").empty()) fields["gpus"] = contains(test, "_1node") ? "4" : "8";
  fields["zero"] = row.text("fsdp") == "optim_grads_params" ? "3"
                   : row.text("dist_optimizer") == "true"   ? "1"
                                                            : "0";
  auto const precision = row.text("precision");
  parallel::require(precision == "bf16" || precision == "fp16", "its precision is ", precision,
                    "; bf16 and fp16 are predicted");
  auto notes = precision + (has_unfused_attention(row) ? " unfused" : " fused");
  if (contains(test, "_15b_")) notes += " without dropout";
  notes += "; " + test;
  if (row.text("sp") != "true") notes += "; sequence parallel False";
  int const pipeline = row.whole("pp", 1);
  if (!row.text("vpp").empty() && pipeline > 1)
    fields["vpp"] = std::to_string(row.whole("layers") / pipeline / row.whole("vpp"));
  fields["notes"] = std::move(notes);
  return {std::move(fields), std::move(location), row.checksum()};
}

}  // namespace mpt
