// The files of a tokenizer as a folder holds them, for loading, saving and exporting.
//
// tokenizer.json holds everything that encoding needs. tokenizer_config.json, if there, names the
// tokens' roles (eos_token, ...) and the class that transformers' AutoTokenizer shall make. Both
// are kept as text, so that an exported model carries them byte for byte. Nothing is downloaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <parallel/checkpoint/json.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <string>
#include <string_view>
#include <system_error>

namespace mpt {

using parallel::checkpoint::parse_json;

/// The most bytes a tokenizer's file may have.
inline constexpr std::uintmax_t largest_tokenizer_file = std::uintmax_t{256} << 20;

/// The texts of a tokenizer's files.
struct tokenizer_files {
  std::string json;              ///< of tokenizer.json
  std::string config;            ///< of tokenizer_config.json; empty if there is none
  std::filesystem::path source;  ///< the tokenizer.json they came from; empty if made in memory

  /// How errors call the tokenizer.
  [[nodiscard]] std::string name() const {
    return source.empty() ? std::string("tokenizer.json") : source.string();
  }
};

/// Reads tokenizer.json, given as the file or as its folder, and tokenizer_config.json beside it.
[[nodiscard]] inline tokenizer_files read_tokenizer_files(
    std::filesystem::path const& file_or_folder) {
  std::error_code failure;
  bool const folder = std::filesystem::is_directory(file_or_folder, failure);
  bool const there = folder || std::filesystem::exists(file_or_folder, failure);
  parallel::require(
      there, "there is no tokenizer at \"", file_or_folder.string(),
      "\": give the path of a tokenizer.json, or of the folder that holds it. Nothing is "
      "downloaded: "
      "for a name such as \"EleutherAI/gpt-neox-20b\", get tokenizer.json and "
      "tokenizer_config.json "
      "from the \"Files\" of that model on the Hugging Face Hub, put them into a folder, and give "
      "that folder");
  tokenizer_files files;
  files.source = folder ? file_or_folder / "tokenizer.json" : file_or_folder;
  parallel::require(std::filesystem::exists(files.source, failure), "the folder \"",
                    file_or_folder.string(),
                    "\" holds no tokenizer.json; a tokenizer of vocab.json "
                    "and merges.txt must be saved as tokenizer.json first (transformers' "
                    "AutoTokenizer does that with save_pretrained)");
  files.json = parallel::read_text_file(files.source, largest_tokenizer_file);
  auto const config = files.source.parent_path() / "tokenizer_config.json";
  if (std::filesystem::exists(config, failure)) {
    files.config = parallel::read_text_file(config, largest_tokenizer_file);
    auto const parsed = parse_json(files.config, config.string());
    parallel::require(parsed.is_object(), config.string(), ": must hold a JSON object");
  }
  return files;
}

/// The text of the token with a role ("eos_token") in tokenizer_config.json, if it names one, as a
/// string or as an object with `content`.
[[nodiscard]] inline std::optional<std::string> named_token(tokenizer_files const& files,
                                                            char const* role) {
  if (files.config.empty()) return std::nullopt;
  auto const config = parse_json(files.config, "tokenizer_config.json");
  parallel::require(config.is_object(), "tokenizer_config.json: must hold a JSON object");
  auto found = config.find(role);
  if (found == config.end()) return std::nullopt;
  if (found->is_object()) {
    auto const content = found->find("content");
    if (content == found->end()) return std::nullopt;
    found = content;
  }
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// The text of a tokenizer_config.json with which transformers' AutoTokenizer loads the folder. An
/// empty `eos_token` and a `model_max_length` of 0 are left out.
[[nodiscard]] inline std::string make_tokenizer_config(std::string_view eos_token,
                                                       std::int64_t model_max_length) {
  nlohmann::ordered_json config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["add_prefix_space"] = false;
  config["clean_up_tokenization_spaces"] = false;
  if (!eos_token.empty())
    for (char const* const role : {"bos_token", "eos_token", "unk_token"}) config[role] = eos_token;
  // Without this the class also returns token_type_ids, which MPT's generate does not take.
  config["model_input_names"] = {"input_ids", "attention_mask"};
  if (model_max_length > 0) config["model_max_length"] = model_max_length;
  return config.dump(2) + "\n";
}

/// Writes tokenizer.json and, if there is one, tokenizer_config.json into a folder, which is made
/// if need be.
inline void write_tokenizer_files(tokenizer_files const& files,
                                  std::filesystem::path const& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  parallel::require(std::filesystem::is_directory(folder), "the folder \"", folder.string(),
                    "\" cannot be made: ", failure.message());
  if (!files.config.empty())
    parallel::replace_text_file(folder / "tokenizer_config.json", files.config);
  parallel::replace_text_file(folder / "tokenizer.json",
                              files.json);  // last: it says that all is there
}

}  // namespace mpt
