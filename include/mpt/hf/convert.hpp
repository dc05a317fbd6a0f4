// Conversion to and from Hugging Face folders, a piece of a tensor at a time, so that a model
// larger than memory can be converted. Both directions write under a temporary name and rename at
// the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/hf/adapter.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/hf/stored_layout.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// What a conversion reads and writes.
struct convert_options {
  std::string dtype = {};      ///< "float32", "bfloat16" or "float16"; empty: the source's type
  std::string tokenizer = {};  ///< folder or tokenizer.json; empty: the source's, if it exists
  std::string base = {};  ///< folder of an adapter's model; empty: the one that the source names
  std::uint64_t max_shard_bytes = std::uint64_t{5} << 30;
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
};

/// The precision that config.json calls `dtype`.
[[nodiscard]] hf::precision precision_named(std::string_view dtype);

/// The config.json of an export: in the form of the model's family.
[[nodiscard]] nlohmann::json config_json_of(model_config const& config, std::string const& dtype);

/// The tensors of an export of these parameters, in the form of the model's family.
[[nodiscard]] hf::stored_tensors stored_tensors_of(model_config const& config,
                                                   std::span<hf::named_shape const> parameters);

/// Adds the model's Python code to an export if transformers has no class for this form of the
/// model.
void add_remote_code(hf::export_options& options, model_config const& config);

/// The tokenizer at `name`. Throws when it has ids outside the model's vocabulary.
[[nodiscard]] tokenizer load_fitting_tokenizer(std::string const& name, model_config const& model);

/// The tokens that end a text of a model that has been trained with a tokenizer: the tokenizer's,
/// which ended the texts that it saw, then those that its files name, as transformers' Trainer
/// aligns them. Those outside the vocabulary are left out.
[[nodiscard]] std::vector<std::int64_t> trained_end_tokens(
    std::vector<std::int64_t> named, std::optional<std::int64_t> tokenizer_end,
    std::int64_t vocabulary);

/// The tokens that end a text of an exported model.
struct exported_ends {
  std::vector<std::int64_t> tokens;           ///< each in the vocabulary
  std::optional<std::int64_t> tokenizer_end;  ///< the tokenizer's; none: a copy with its own
};

/// The tokens that end a text of an export of `config`, of any form: those of `named` (by the
/// model's files), else those that the files next to the tokenizer at `tokenizer` name, else those
/// of the config.json from which the model was read. Of a trained model the tokenizer's end token
/// is one of them; a copy of an untrained one ends texts where its original does.
[[nodiscard]] exported_ends exported_ends_of(model_config const& config,
                                             std::vector<std::int64_t> named,
                                             std::string const& tokenizer,
                                             std::optional<std::int64_t> tokenizer_end,
                                             bool is_trained);

/// The options for exporting this model without its weights: configuration, code, the files of the
/// tokenizer at `tokenizer` ("": none). `end_tokens` and `is_trained`: see exported_ends_of. Throws
/// for a tokenizer with ids outside the model's vocabulary.
[[nodiscard]] hf::export_options export_options_of(model_config const& config,
                                                   std::string const& dtype,
                                                   std::string const& tokenizer,
                                                   std::vector<std::int64_t> end_tokens = {},
                                                   bool is_trained = true);

/// The path of the tokenizer for an export of `source` into `out`: the one that `options` name,
/// else the source's own, else that of the earlier export which is replaced; "": there is none.
[[nodiscard]] std::string tokenizer_of_export(model_source const& source,
                                              std::filesystem::path const& out,
                                              convert_options const& options);

/// Writes a Hugging Face folder: config.json, generation_config.json, the tensors, the tokenizer's
/// files when it is known (tokenizer_of_export), and the model's code when transformers has no
/// class for this form. Adapters are merged into the weights that they adapt. Weights that float16
/// cannot hold are an error.
///
///     export_hugging_face(model_source("runs/first"), "exported", {.dtype = "bfloat16"});
///
/// - `source`: a checkpoint, the folder of a run, or a Hugging Face folder
/// - `out`: the folder, which appears when it is complete
void export_hugging_face(model_source const& source, std::filesystem::path const& out,
                         convert_options const& options);

/// Writes the adapters of a LoRA run as a folder in PEFT's form, which names options.base as the
/// folder of the adapted model, or the one that the run names.
void export_adapter(model_source const& source, std::filesystem::path const& out,
                    convert_options const& options);

/// Writes the weights of a Hugging Face folder as the checkpoint `root`/ep0-ba0, from which a run
/// can begin (load_path with load_weights_only).
std::filesystem::path import_hugging_face(model_source const& source,
                                          std::filesystem::path const& root,
                                          convert_options const& options);

/// Writes the model, adapters merged into its weights, and its tokenizer, where it is known, as the
/// file `out`, which appears when it is complete; some rows of a tensor are in memory at once.
/// Returns what is to be known of the file, a sentence each. Throws before it writes anything for
/// a model or a tokenizer that llama.cpp cannot hold, with all reasons, and for a file that exists,
/// unless it is a GGUF file and options.existing is `replace`.
std::vector<std::string> export_gguf(model_source const& source, std::filesystem::path const& out,
                                     convert_options const& options);

}  // namespace mpt
