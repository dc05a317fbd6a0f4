// model_family: a family of models in Hugging Face's form (Llama, Qwen2, ...), which our model
// holds.
//
// A family is one file in src/mpt/config/families, named after the `model_type` in its
// config.json: the fields of that file with the options of the model that they mean, and the names
// of its tensors with the parameters that hold them. CMake collects the files; nothing else names
// them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/model.hpp>
#include <mpt/config/model/family_form.hpp>

namespace mpt {

/// Where the elements of a parameter are in the tensors of a family.
enum class tensor_form : std::uint8_t {
  rows,         ///< the rows of the tensors, one tensor after another
  head_groups,  ///< one tensor: for each head the rows of its query, of its key and of its value
  transposed,   ///< one tensor, [in, out]
  /// As `rows`, but in each head of queries and keys the two elements that turn together are
  /// neighbours in the tensor, and half of the turned elements apart here
  interleaved,
  experts,  ///< one tensor for each expert, for whose number the name's second `*` stands
  transposed_experts,  ///< the same, [in, out]
};

/// `pattern` with a number in place of its first `*`, if it has one.
[[nodiscard]] std::string with_number(std::string_view pattern, std::string_view number);

/// The tensors that hold one layer of the model. A `*` stands for the number of the block.
struct stored_layer {
  std::string_view layer;                 ///< "transformer.blocks.*.attn.Wqkv"
  std::array<std::string_view, 3> names;  ///< "model.layers.*.self_attn.q_proj", ...; the others ""
  tensor_form form = tensor_form::rows;
};

/// Whether projections of queries, keys and values have biases in llama.cpp.
enum class gguf_biases : std::uint8_t { none, optional, required };

/// Whether an architecture of llama.cpp has experts, and whether their weights add up to 1.
enum class gguf_experts : std::uint8_t { none, weighted, normalised };

/// How llama.cpp, and so a GGUF file, holds the models of a family.
struct gguf_form {
  std::string_view architecture;  ///< general.architecture; "": llama.cpp holds no such models
  parallel::ops::activation_kind activation = parallel::ops::activation_kind::silu;
  gguf_biases attention_biases = gguf_biases::none;
  gguf_experts experts = gguf_experts::none;
  bool has_shared_expert = false;      ///< experts have one more beside them, for all tokens
  bool has_expert_width = false;       ///< experts have a width beside that of the FFN
  bool joins_projections = false;      ///< one tensor holds queries, keys and values
  bool interleaves_rotation = false;   ///< elements 2i and 2i + 1 of a head turn together
  bool has_head_width = false;         ///< heads together may differ from d_model in width
  bool has_frequency_factors = false;  ///< rope_freqs, which holds Llama 3's scaling
  bool needs_output = false;           ///< has an output tensor where embeddings are tied, too
  bool adds_one_to_norms = false;      ///< holds 1 + weight of norms
  /// Takes from a model the settings that this architecture computes as well, beyond those that
  /// all of them do; what is left is refused. Null: none.
  void (*remove_held)(model_config& model) = nullptr;
};

struct model_family {
  std::string_view model_type;    ///< in config.json
  std::string_view architecture;  ///< the class of transformers
  /// Names each field of config.json.
  void (*describe)(family_form& form, model_config& model);
  std::span<stored_layer const> layers;
  /// The prefix that tensors lack in a folder of the base model, saved without its head.
  std::string_view base_prefix;
  /// The ends of names of tensors that hold no parameters, such as ".attn.bias", a mask.
  std::span<std::string_view const> buffers;
  /// PEFT's target_modules where a configuration names none.
  std::span<std::string_view const> default_targets;
  rotary_keys rotary = {};
  std::string_view length_key = "max_position_embeddings";  ///< of the longest sequence
  /// In llama.cpp's terms.
  gguf_form gguf = {};
};

/// All families, in alphabetical order, without MPT.
[[nodiscard]] std::span<model_family const* const> model_families();

/// The names of all families, MPT first, for messages.
[[nodiscard]] std::string family_names();

/// The family with this `model_type`; null for MPT and unknown ones.
[[nodiscard]] model_family const* find_family(std::string_view model_type);

/// Fails where `architectures` of a config.json names the class of another family than its
/// `model_type`, and where attention sees later tokens.
void require_model_class(nlohmann::json const& json, std::string const& model_type,
                         std::string const& source);

/// What a user should know of the config.json that a family's model was read from, a sentence each:
/// fields without effect, and code that is not run. `source` names the file.
[[nodiscard]] std::vector<std::string> family_notes(model_config const& model,
                                                    std::string const& source);

/// The model that a family's config.json describes; `source` names the file in messages. Throws for
/// a model that cannot be held. `overrides`, an object, replaces fields of the file; each of them
/// must be known to the family.
[[nodiscard]] model_config read_family_json(model_family const& family, nlohmann::json json,
                                            std::string const& source,
                                            nlohmann::json const& overrides = {});

/// Makes q, k and v separate projections where the family stores them apart, so that each can
/// have its adapter under its own name.
void separate_projections(model_config& model);

/// The config.json of a model in its family's form, whose weights are stored as `dtype`; a field
/// that has not changed since the model was read from such a file is as it was there. Throws when
/// the family has no field for one of the model's settings.
[[nodiscard]] nlohmann::json to_family_json(model_family const& family, model_config const& model,
                                            std::string_view dtype);

/// The tensors of a family that hold a parameter of ours.
struct stored_names {
  std::vector<std::string> names;
  tensor_form form = tensor_form::rows;
};

/// The tensors of a parameter ("transformer.blocks.3.attn.Wq.weight"), or their names without
/// ending for a layer's; nothing where the family has no such layer.
[[nodiscard]] std::optional<stored_names> stored_names_of(model_family const& family,
                                                          std::string_view parameter);

}  // namespace mpt
