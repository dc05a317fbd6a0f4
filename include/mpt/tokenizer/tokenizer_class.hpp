// The classes of transformers' tokenizers that add something to a tokenizer's files: tokens for
// roles that no file names, and tokens around a text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mpt {

/// What a class of transformers 4.57 adds to the files.
struct tokenizer_class {
  std::string_view name;  ///< without "Fast" at its end
  std::string_view bos;   ///< the token of a role that no file names; empty: none
  std::string_view eos;
  std::string_view unk;
  std::string_view pad = {};
  /// Whether add_bos_token is true if tokenizer_config.json does not say; nullopt: the class leaves
  /// the tokens around a text to the post_processor of tokenizer.json.
  std::optional<bool> adds_bos = std::nullopt;
  /// Whether the tokens of these four roles lose the flags that tokenizer.json gives them, unless
  /// tokenizer_config.json lists them.
  bool resets_flags = false;

  /// The token of a role such as "eos_token"; empty: none.
  [[nodiscard]] std::string_view token(std::string_view role) const;
};

/// GPT-NeoX's class, by which a folder that names no class is read, as MPT's is.
[[nodiscard]] tokenizer_class const& gpt_neox_class();

/// The class of the tokenizer of a model with this config.json, by its tokenizer_class or its
/// model_type; "": not known.
[[nodiscard]] std::string class_of_model(nlohmann::json const& config);

/// The class that a tokenizer_config.json names; nullptr if it names none, or one that adds nothing
/// to the files.
[[nodiscard]] tokenizer_class const* find_tokenizer_class(nlohmann::json const& config);

}  // namespace mpt
