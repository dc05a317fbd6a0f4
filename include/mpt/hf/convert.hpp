// Conversion to and from Hugging Face folders, a piece of a tensor at a time: a model larger than
// memory converts. Both directions write under a temporary name and rename at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/hf/adapter.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

struct convert_options {
  std::string dtype = {};  // "float32", "bfloat16" or "float16"; empty: as the source says
  std::string tokenizer =
      {};                 // folder or tokenizer.json; empty: what the source names, if it is there
  std::string base = {};  // of an adapter: the folder of its model; empty: as the source says
  std::uint64_t max_shard_bytes = std::uint64_t{5} << 30;
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
};

/// The precision that config.json calls `dtype`.
[[nodiscard]] hf::precision precision_named(std::string_view dtype);

/// Adds to an export what makes transformers load this model and no other: its own class, or the
/// code that comes with the weights.
void add_remote_code(hf::export_options& how, model_config const& config);

/// The tokenizer at `name`, to go with a model. Throws when it has ids that the model has not.
[[nodiscard]] tokenizer load_fitting_tokenizer(std::string const& name, model_config const& model);

/// What an export of this model says beside its weights: configuration, code, the files of the
/// tokenizer at `tokenizer` ("": none). `end_tokens`: that end its texts; empty: the tokenizer's
/// end-of-text token. Throws for a tokenizer that has ids that the model has not.
[[nodiscard]] hf::export_options export_options_of(model_config const& config,
                                                   std::string const& dtype,
                                                   std::string const& tokenizer,
                                                   std::vector<std::int64_t> end_tokens = {});

/// Where the tokenizer lies that goes with an export of `source` into `out`: the one named, else
/// the source's own, else that of the earlier export which is replaced; "": there is none.
[[nodiscard]] std::string tokenizer_of_export(model_source const& source,
                                              std::filesystem::path const& out,
                                              convert_options const& options);

/// Writes a Hugging Face folder: config.json, generation_config.json, the tensors, the tokenizer's
/// files when it is known (tokenizer_of_export), and the model's code when transformers has none of
/// this form. Adapters are merged into the weights beside which they stand. Weights that float16
/// cannot hold are an error.
void export_hugging_face(model_source const& source, std::filesystem::path const& out,
                         convert_options const& options);

/// Writes the adapters of a LoRA run as a folder in PEFT's form. `base`: the folder of the model
/// beside which they stand; empty: as the run says.
void export_adapter(model_source const& source, std::filesystem::path const& out,
                    convert_options const& options);

/// Writes a checkpoint of a Hugging Face folder's weights, to begin a run from (load_path with
/// load_weights_only). `root` will hold it as ep0-ba0.
std::filesystem::path import_hugging_face(model_source const& source,
                                          std::filesystem::path const& root,
                                          convert_options const& options);

}  // namespace mpt
