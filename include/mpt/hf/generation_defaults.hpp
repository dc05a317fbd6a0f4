// generation_config.json of a model's folder, and the settings of sampling that it recommends.
//
// The tokens that end a text that a model generates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

/// The generation_config.json of a model's folder.
[[nodiscard]] std::filesystem::path generation_file(std::filesystem::path const& folder);

/// The file's content, an object; nothing where the folder has no such file.
[[nodiscard]] std::optional<nlohmann::json> read_generation_json(
    std::filesystem::path const& folder);

/// eos_token_id of the file, the tokens that end a text; nothing where the folder has no such file.
[[nodiscard]] std::optional<std::vector<std::int64_t>> read_generation_ends(
    std::filesystem::path const& folder);

/// Settings that a file gives; none where it gives none.
struct generation_defaults {
  std::optional<double> temperature;  ///< 0: greedy
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> repetition_penalty;
  /// Settings that change texts in transformers and are not followed here, each with its value.
  std::vector<std::string> unfollowed{};
};

/// Reads generation_config.json of a folder, by transformers' rules: without `do_sample` it is
/// greedy, and with it temperature 1 and the 50 most likely tokens are meant where the file names
/// no others. All are none if there is no such file. Throws for a value of another type.
[[nodiscard]] generation_defaults read_generation_defaults(std::filesystem::path const& folder);

/// The tokens that end a text.
struct text_ends {
  std::vector<std::int32_t> tokens;  ///< each in the model's vocabulary; empty: nothing ends a text
  std::string note;                  ///< a note for the user; empty: none
};

/// The end tokens as transformers finds them: those that the model's files name
/// (model_source::end_tokens), else the tokenizer's end-of-text token.
[[nodiscard]] text_ends text_ends_of(model_source const& source, tokenizer const& tokenizer);

}  // namespace mpt
