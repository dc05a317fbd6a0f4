#include <mpt/config/data/finetuning.hpp>

#include <cstddef>
#include <string_view>
#include <utility>

#include <mpt/finetune/preprocess.hpp>

namespace mpt {
namespace {

/// The paths of `node`, which is a path or a list of paths.
[[nodiscard]] std::vector<std::string> paths_of(config_reader const& reader,
                                                config_node const& node) {
  if (node.is_scalar()) return {node.text};
  reader.check("data_files", node.is_list(), "expected a path or a list of them, found ",
               describe(node));
  std::vector<std::string> out;
  for (auto const& item : node.items) {
    reader.check("data_files", item.is_scalar(), "expected a list of paths, found ",
                 describe(item));
    out.push_back(item.text);
  }
  return out;
}

/// Reads `data_files`: paths, or a mapping from splits to paths.
[[nodiscard]] std::map<std::string, std::vector<std::string>> read_data_files(
    config_reader& reader) {
  config_node const* const node = reader.raw("data_files");
  if (node == nullptr) return {};
  if (!node->is_map()) return {{"", paths_of(reader, *node)}};
  std::map<std::string, std::vector<std::string>> out;
  for (std::size_t i = 0; i < node->keys.size(); ++i)
    out[node->keys[i].name] = paths_of(reader, node->items[i]);
  return out;
}

/// Reads packing_ratio and max_leftover_bins_to_keep.
[[nodiscard]] std::optional<packing_config> read_packing(config_reader& data) {
  auto const leftover = data.optional<std::int64_t>("max_leftover_bins_to_keep");
  data.check("max_leftover_bins_to_keep", leftover.value_or(0) >= 0, "must not be negative, found ",
             leftover.value_or(0));
  auto const text = data.get<std::string>("packing_ratio", "");
  data.check("max_leftover_bins_to_keep", !text.empty() || !leftover,
             "has no effect without packing_ratio; give both or neither");
  if (text.empty()) return std::nullopt;
  packing_config packing{{}, leftover};
  if (text != "auto") packing.ratio = data.required<double>("packing_ratio");
  data.check("packing_ratio", !packing.ratio || (*packing.ratio >= 1 && *packing.ratio <= 1 << 20),
             "expected 'auto' or a number of at least 1, found ", packing.ratio.value_or(0));
  if (packing.ratio == 1) return std::nullopt;  // LLM Foundry does not pack then
  return packing;
}

/// Reads allow_pad_trimming and pad_to_longest; pad_to_longest takes precedence, as in LLM Foundry.
void read_trimming(config_reader& data, finetuning_config& out) {
  using enum finetune::row_trimming;
  for (auto const& [key, trimming] :
       {std::pair{"allow_pad_trimming", to_multiple}, std::pair{"pad_to_longest", to_longest}}) {
    bool const requested = data.get(key, false);
    if (requested && out.packing)
      data.accept_without_effect(key, "packed rows have max_seq_len tokens");
    else if (requested)
      out.trimming = trimming;
  }
  if (out.trimming == to_longest && data.get("allow_pad_trimming", false))
    data.report_without_effect("allow_pad_trimming", "pad_to_longest decides");
}

/// Reads preprocessing_fn: the name of a known set, or a mapping of columns.
void read_preprocessing(config_reader& data, finetuning_config& out) {
  config_node const* const node = data.raw("preprocessing_fn");
  if (node == nullptr) return;
  if (node->is_map()) {
    auto columns = data.section("preprocessing_fn");
    out.columns = prompt_columns{columns.required<std::string>("prompt"),
                                 columns.required<std::string>("response")};
    columns.finish();
    return;
  }
  data.check("preprocessing_fn", node->is_scalar(),
             "expected the name of a set or {prompt: COLUMN, response: COLUMN}, found ",
             describe(*node));
  out.preprocessing = node->text;
  try {
    static_cast<void>(finetune::named_preprocessor(out.preprocessing));
  } catch (parallel::error const& problem) {
    parallel::fail(node->location, ": ", data.full_name("preprocessing_fn"), ": ", problem.what());
  }
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

finetuning_config read_finetuning(config_reader& data) {
  finetuning_config out;
  out.name = out.set = data.get<std::string>("hf_name", "");
  auto kwargs = data.section("hf_kwargs");
  out.subset = kwargs.get<std::string>("name", "");
  out.data_dir = kwargs.get<std::string>("data_dir", "");
  out.data_files = read_data_files(kwargs);
  kwargs.accept_without_effect("trust_remote_code", "no code of a data set is run");
  kwargs.finish();
  out.split = data.get<std::string>("split", "");
  read_preprocessing(data, out);
  out.target_prompts = data.get("target_prompts", out.target_prompts);
  out.target_responses = data.get("target_responses", out.target_responses);
  out.packing = read_packing(data);
  read_trimming(data, out);
  data.refuse_unsupported("decoder_only_format",
                          "use true: an MPT reads prompt and response as one sequence", {"true"});
  data.accept_without_effect("safe_load", "files are only read, nothing in them is run");
  return out;
}

void refuse_finetuning(config_reader& data) {
  for (std::string_view const key :
       {"hf_name", "hf_kwargs", "preprocessing_fn", "decoder_only_format", "packing_ratio",
        "safe_load", "allow_pad_trimming", "pad_to_longest", "target_prompts", "target_responses",
        "max_leftover_bins_to_keep"})
    data.refuse_unsupported(
        key, "it belongs to a loader with name: finetuning, this one has name: text");
}

}  // namespace mpt::detail
