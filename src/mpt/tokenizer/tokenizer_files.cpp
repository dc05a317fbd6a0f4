#include <mpt/tokenizer/tokenizer_files.hpp>

#include <system_error>

#include <nlohmann/json.hpp>

namespace mpt {
namespace {

/// The text of a file as a JSON object; empty if there is no file.
[[nodiscard]] nlohmann::json object_of(std::string const& text, std::string const& name) {
  auto out = text.empty() ? nlohmann::json::object() : parse_json(text, name);
  parallel::require(out.is_object(), name, ": must hold a JSON object");
  return out;
}

/// The token that transformers' class has for a role that no file names. A folder that names no
/// class is read like MPT's, by GPT-NeoX's class.
[[nodiscard]] std::optional<std::string> token_of_class(nlohmann::json const& config,
                                                        std::string_view role) {
  auto const found = config.find("tokenizer_class");
  bool const named = found != config.end() && found->is_string();
  auto const name = named ? found->get<std::string>() : std::string("GPTNeoXTokenizer");
  if (role != "eos_token" && role != "bos_token" && role != "unk_token") return std::nullopt;
  if (name.starts_with("LlamaTokenizer"))
    return role == "bos_token" ? "<s>" : role == "eos_token" ? "</s>" : "<unk>";
  bool const is_qwen = name.starts_with("Qwen2Tokenizer");  // which has no bos_token
  bool const has_defaults = name.starts_with("GPTNeoXTokenizer") ||
                            name.starts_with("GPT2Tokenizer") || (is_qwen && role != "bos_token");
  if (!has_defaults) return std::nullopt;
  return "<|endoftext|>";
}

}  // namespace

std::string tokenizer_files::name() const {
  return source.empty() ? std::string("tokenizer.json") : source.string();
}

tokenizer_files read_tokenizer_files(std::filesystem::path const& file_or_folder) {
  std::error_code failure;
  bool const is_folder = std::filesystem::is_directory(file_or_folder, failure);
  bool const is_found = is_folder || std::filesystem::exists(file_or_folder, failure);
  parallel::require(
      is_found, "there is no tokenizer at \"", file_or_folder.string(),
      "\": give the path of a tokenizer.json, or of the folder that holds it. Nothing is "
      "downloaded: "
      "for a name such as \"EleutherAI/gpt-neox-20b\", get tokenizer.json and "
      "tokenizer_config.json "
      "from the \"Files\" of that model on the Hugging Face Hub, put them into a folder, and give "
      "that folder");
  tokenizer_files files;
  files.source = is_folder ? file_or_folder / "tokenizer.json" : file_or_folder;
  parallel::require(std::filesystem::exists(files.source, failure), "the folder \"",
                    file_or_folder.string(),
                    "\" holds no tokenizer.json; a tokenizer of vocab.json "
                    "and merges.txt must be saved as tokenizer.json first (transformers' "
                    "AutoTokenizer does that with save_pretrained)");
  files.json = parallel::read_text_file(files.source, largest_tokenizer_file);
  auto const read_beside = [&](char const* name) {
    auto const file = files.source.parent_path() / name;
    if (!std::filesystem::exists(file, failure)) return std::string();
    auto text = parallel::read_text_file(file, largest_tokenizer_file);
    parallel::require(parse_json(text, file.string()).is_object(), file.string(),
                      ": must hold a JSON object");
    return text;
  };
  files.config = read_beside("tokenizer_config.json");
  files.special_tokens = read_beside("special_tokens_map.json");
  return files;
}

std::optional<std::string> named_token(tokenizer_files const& files, char const* role) {
  auto const config = object_of(files.config, "tokenizer_config.json");
  auto const map = object_of(files.special_tokens, "special_tokens_map.json");
  bool const from_map = map.contains(role) && !config.contains("added_tokens_decoder");
  if (!from_map && !config.contains(role)) return token_of_class(config, role);
  auto token = from_map ? map.at(role) : config.at(role);
  if (token.is_object()) token = token.value("content", nlohmann::json());
  return token.is_string() ? std::optional(token.get<std::string>()) : std::nullopt;
}

std::string make_tokenizer_config(std::string_view eos_token, std::int64_t model_max_length) {
  nlohmann::ordered_json config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["add_prefix_space"] = false;
  config["clean_up_tokenization_spaces"] = false;
  if (!eos_token.empty())
    for (char const* const role : {"bos_token", "eos_token", "unk_token"}) config[role] = eos_token;
  // Without this the class also returns token_type_ids, which MPT's generate does not accept.
  config["model_input_names"] = {"input_ids", "attention_mask"};
  if (model_max_length > 0) config["model_max_length"] = model_max_length;
  return config.dump(2) + "\n";
}

void write_tokenizer_files(tokenizer_files const& files, std::filesystem::path const& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  parallel::require(std::filesystem::is_directory(folder), "the folder \"", folder.string(),
                    "\" cannot be made: ", failure.message());
  if (!files.config.empty())
    parallel::replace_text_file(folder / "tokenizer_config.json", files.config);
  if (!files.special_tokens.empty())
    parallel::replace_text_file(folder / "special_tokens_map.json", files.special_tokens);
  parallel::replace_text_file(
      folder / "tokenizer.json",
      files.json);  // written last: its presence means that the folder is complete
}

}  // namespace mpt
