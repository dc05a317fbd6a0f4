#include <mpt/tokenizer/tokenizer_files.hpp>

#include <system_error>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/tokenizer_class.hpp>

namespace mpt {
nlohmann::json parse_object(std::string const& text, std::string_view name) {
  auto out = text.empty() ? nlohmann::json::object() : parse_json(text, std::string(name));
  parallel::require(out.is_object(), name, ": must hold a JSON object");
  return out;
}

namespace {

/// The text of a tokenizer_config.json with the class that the model's config.json means where it
/// names none.
[[nodiscard]] std::string with_class(std::string config, std::string const& model) {
  auto const name = class_of_model(parse_object(model, "config.json"));
  if (name.empty()) return config;
  auto out = nlohmann::ordered_json::parse(config.empty() ? "{}" : config);
  auto& named = out["tokenizer_class"];
  if (!named.is_null()) return config;
  named = name;
  return out.dump(2) + "\n";
}

}  // namespace

std::string tokenizer_files::name() const {
  return source.empty() ? std::string("tokenizer.json") : source.string();
}

std::string advice_to_make_tokenizer_json(std::filesystem::path const& folder) {
  std::error_code unreadable;  // an unreadable file counts as absent
  for (char const* const name : {"tokenizer.model", "vocab.json"})
    if (std::filesystem::exists(folder / name, unreadable))
      return parallel::concat(
          "its ", name, " becomes one by python3 -c \"from transformers import AutoTokenizer; ",
          "AutoTokenizer.from_pretrained('", folder.string(),
          "').save_pretrained('my-tokenizer')\" (with the packages transformers, sentencepiece "
          "and ",
          "protobuf); then name my-tokenizer");
  return {};
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
  if (!std::filesystem::exists(files.source, failure)) {
    auto const advice = advice_to_make_tokenizer_json(file_or_folder);
    parallel::fail("the folder \"", file_or_folder.string(), "\" holds no tokenizer.json; ",
                   advice.empty() ? "name a folder that has one" : advice);
  }
  files.json = parallel::read_text_file(files.source, largest_tokenizer_file);
  auto const read_beside = [&](char const* name) {
    auto const file = files.source.parent_path() / name;
    if (!std::filesystem::exists(file, failure)) return std::string();
    auto text = parallel::read_text_file(file, largest_tokenizer_file);
    parallel::require(parse_json(text, file.string()).is_object(), file.string(),
                      ": must hold a JSON object");
    return text;
  };
  files.config = with_class(read_beside("tokenizer_config.json"), read_beside("config.json"));
  files.special_tokens = read_beside("special_tokens_map.json");
  files.added_tokens = read_beside("added_tokens.json");
  return files;
}

std::optional<std::string> named_token(tokenizer_files const& files, char const* role) {
  auto const config = parse_object(files.config, "tokenizer_config.json");
  auto const map = parse_object(files.special_tokens, "special_tokens_map.json");
  bool const from_map = map.contains(role) && !config.contains("added_tokens_decoder");
  if (!from_map && !config.contains(role)) {
    auto const* const named_class =
        config.contains("tokenizer_class") ? find_tokenizer_class(config) : &gpt_neox_class();
    auto const token = named_class == nullptr ? std::string_view() : named_class->token(role);
    return token.empty() ? std::nullopt : std::optional(std::string(token));
  }
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
  auto const write = [&](char const* name, std::string const& text) {
    if (!text.empty()) parallel::replace_text_file(folder / name, text);
  };
  write("tokenizer_config.json", files.config);
  write("special_tokens_map.json", files.special_tokens);
  write("added_tokens.json", files.added_tokens);
  parallel::replace_text_file(
      folder / "tokenizer.json",
      files.json);  // written last: its presence means that the folder is complete
}

}  // namespace mpt
