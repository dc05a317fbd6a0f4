// The files of a tokenizer as a folder holds them, for loading, saving and exporting.
//
// tokenizer.json holds the vocabulary and the steps of encoding. tokenizer_config.json, if there is
// one, names the roles of tokens (eos_token, ...), the class for transformers' AutoTokenizer, and
// settings that go before those of tokenizer.json (auto_tokenizer.hpp); older folders name the
// roles in special_tokens_map.json and tokens in added_tokens.json. All files are kept as text, so
// that an exported model has them byte for byte; only a tokenizer_config.json without a class gets
// that of the model in config.json. Nothing is downloaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

using parallel::checkpoint::parse_json;

/// The largest size of a tokenizer's file in bytes.
inline constexpr std::uintmax_t largest_tokenizer_file = std::uintmax_t{256} << 20;

/// The texts of a tokenizer's files.
struct tokenizer_files {
  std::string json;              ///< of tokenizer.json
  std::string config;            ///< of tokenizer_config.json, with a class; may be empty
  std::filesystem::path source;  ///< path of tokenizer.json; empty if made in memory
  std::string special_tokens{};  ///< of special_tokens_map.json; empty if there is none
  std::string added_tokens{};    ///< of added_tokens.json; empty if there is none

  /// The name of the tokenizer in errors.
  [[nodiscard]] std::string name() const;
};

/// How to make the tokenizer.json that a folder lacks of the other files that it has, as the end of
/// a message; "": it has none to make it of.
[[nodiscard]] std::string advice_to_make_tokenizer_json(std::filesystem::path const& folder);

/// Reads tokenizer.json, given as the file or as its folder, and tokenizer_config.json,
/// special_tokens_map.json, added_tokens.json and config.json next to it.
[[nodiscard]] tokenizer_files read_tokenizer_files(std::filesystem::path const& file_or_folder);

/// The text of a file as a JSON object; an empty one if there is no file. `name` is the name of the
/// file in errors.
[[nodiscard]] nlohmann::json parse_object(std::string const& text, std::string_view name);

/// The text of the token with a role ("eos_token"), as transformers finds it. It is named by
/// tokenizer_config.json, as a string or as an object with `content`, or by
/// special_tokens_map.json, which has priority unless tokenizer_config.json lists the added tokens
/// itself; otherwise the tokenizer's class names it. The vocabulary may lack the token.
[[nodiscard]] std::optional<std::string> named_token(tokenizer_files const& files,
                                                     char const* role);

/// The text of a tokenizer_config.json for transformers' AutoTokenizer. An empty `eos_token` and a
/// `model_max_length` of 0 are left out.
[[nodiscard]] std::string make_tokenizer_config(std::string_view eos_token,
                                                std::int64_t model_max_length);

/// Writes tokenizer.json and, unless they are empty, the other files into a folder, which is
/// created if it does not exist.
void write_tokenizer_files(tokenizer_files const& files, std::filesystem::path const& folder);

}  // namespace mpt
