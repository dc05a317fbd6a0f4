// Hugging Face `config.json` to and from a model_config.
//
// Three programs read such files. transformers' own MptForCausalLM has only one form whatever the
// file says: ALiBi, no bias, a 4x FFN with exact GELU, LayerNorm without bias; it ignores qk_ln,
// attention_bias, learned_pos_emb, logit_scale and the model's own dropouts (it uses attn_pdrop for
// the residuals), and loads such files without an error. So a file names MptForCausalLM exactly
// when it represents the model (`transformers_gaps` is empty); any other form has a `model_type`
// that transformers knows only from the code next to the weights (mpt/hf/remote_code.hpp). LLM
// Foundry's MPTForCausalLM has all forms under model_type mpt; its files are read too. Every field
// is written in either case, so that reading the file restores the model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/model.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// A model and the element type its weights are stored in ("float32", "bfloat16", "float16").
struct hf_model {
  model_config model;
  std::string dtype = "float32";
  std::vector<std::int64_t> end_tokens{};  ///< eos_token_id; may be outside the vocabulary
  std::vector<std::string> notes{};        ///< for the user, a sentence each
};

/// model_type and architecture in the file of a model that needs the code next to it.
inline constexpr std::string_view remote_model_type = "parallel_mpt";
/// The "architectures" of such a file.
inline constexpr std::string_view remote_architecture = "ParallelMptForCausalLM";

/// The differences between this model and transformers' MptForCausalLM; empty when there are none.
[[nodiscard]] std::vector<std::string> transformers_gaps(model_config const& model);

/// The reasons for which vLLM does not serve this model's Hugging Face folder, or would compute
/// something else from it; empty when there are none.
[[nodiscard]] std::vector<std::string> vllm_gaps(model_config const& model);

namespace detail {

/// A JSON value as a configuration value; `location` is the file and the name of the key.
[[nodiscard]] config_node node_of(nlohmann::json const& json, std::string const& location,
                                  std::size_t depth);

/// A configuration value as JSON, by YAML's rules for scalars.
[[nodiscard]] nlohmann::json to_json(config_node const& node);

/// The name of a kind in a table such as norm_kind_names.
template <class Kind, std::size_t Size>
[[nodiscard]] std::string listed_name(
    std::array<std::pair<std::string_view, Kind>, Size> const& names, Kind kind) {
  for (auto const& [name, value] : names)
    if (value == kind) return std::string(name);
  return {};
}

}  // namespace detail

/// The `config.json` of a model in MPT's form, whatever its family, whose weights are stored as
/// `dtype` ("float32", "bfloat16" or "float16"). Checkpoints hold this form.
[[nodiscard]] nlohmann::json to_hf_json(model_config const& model, std::string_view dtype);

/// A model, with the element type and the end tokens that its config.json names.
[[nodiscard]] hf_model with_stored_form(model_config model, nlohmann::json const& json,
                                        std::string const& source);

/// Reads a `config.json` that transformers or LLM Foundry wrote, or one from the hub, of an MPT or
/// of a family (family.hpp); `source` names it in messages. Keys that belong to no model (token
/// ids, versions, auto_map, ...) are ignored; a model that cannot be represented is an error.
[[nodiscard]] hf_model from_hf_json(nlohmann::json const& json, std::string const& source);

/// A setting that differs between two configurations, with its two values in JSON, or "nothing"
/// where it is absent.
struct setting_difference {
  std::string name;
  std::string first, second;
};

/// The first setting in the order of names in which two flat JSON objects differ, among the
/// settings for which counts(name) is true.
template <class Counts>
[[nodiscard]] std::optional<setting_difference> first_difference(nlohmann::json const& first,
                                                                 nlohmann::json const& second,
                                                                 Counts counts) {
  auto const value = [](nlohmann::json const& object, std::string const& name) {
    return object.contains(name) ? object.at(name).dump() : std::string("nothing");
  };
  auto object = first;
  object.update(second);
  for (auto const& [name, unused] : object.items()) {
    setting_difference found{name, value(first, name), value(second, name)};
    if (found.first != found.second && counts(name)) return found;
  }
  return std::nullopt;
}

/// The first setting by which two models with equal weights compute different results; none when
/// they are the same model, however their settings are written. Settings that only affect training
/// or the choice of kernels do not count, nor do names that begin with `ignored_prefix`, unless
/// that is "".
[[nodiscard]] std::optional<setting_difference> difference_of(model_config const& first,
                                                              model_config const& second,
                                                              std::string_view ignored_prefix = {});

/// Reads the `config.json` of a folder or the file itself.
[[nodiscard]] hf_model read_hf_config(std::filesystem::path path);

}  // namespace mpt
