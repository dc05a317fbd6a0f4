#include <mpt/tokenizer/auto_tokenizer.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/tokenizer_class.hpp>
#include <mpt/tokenizer/tokenizer_json.hpp>
#include <parallel/core/hash.hpp>

namespace mpt {
namespace {

using nlohmann::json;

constexpr std::string_view config_file = "tokenizer_config.json";

/// An added token, as a file describes it.
struct described_token {
  std::string content;
  bool special = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
  std::optional<bool> normalized{};

  [[nodiscard]] bool is_normalized() const { return normalized.value_or(!special); }
  [[nodiscard]] bool operator==(described_token const& other) const {
    return content == other.content && special == other.special && lstrip == other.lstrip &&
           rstrip == other.rstrip && single_word == other.single_word &&
           is_normalized() == other.is_normalized();
  }
};

/// Tokens by the ids that a file gives them.
using listed_tokens = std::map<std::uint64_t, described_token>;

/// A boolean field; `fallback` if it is absent or null. Throws for other types.
[[nodiscard]] bool flag_or(json const& object, char const* key, bool fallback,
                           std::string_view path) {
  auto const found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  parallel::require(found->is_boolean(), path, ": ", key, " must be true or false");
  return found->get<bool>();
}

/// A token that a file gives as its text or as an object.
[[nodiscard]] described_token read_token(json const& value, std::string const& path) {
  if (value.is_string()) return {.content = value.get<std::string>()};
  parallel::require(value.is_object() && value.contains("content") && value["content"].is_string(),
                    path, ": must be a token: its text, or an object with its text as \"content\"");
  described_token token{.content = value["content"].get<std::string>(),
                        .special = flag_or(value, "special", false, path),
                        .lstrip = flag_or(value, "lstrip", false, path),
                        .rstrip = flag_or(value, "rstrip", false, path),
                        .single_word = flag_or(value, "single_word", false, path)};
  if (value.contains("normalized"))
    token.normalized = flag_or(value, "normalized", !token.special, path);
  return token;
}

/// The added tokens of a tokenizer.json, to which others are added as Hugging Face's tokenizers do.
class added_token_list {
 public:
  explicit added_token_list(json& file)
      : list_(file["added_tokens"]), vocabulary_(file["model"]["vocab"]) {
    if (list_.is_null()) list_ = json::array();
    for (auto& entry : list_) {
      known_.emplace(entry["content"].get<std::string>(), known_.size());
      end_of_ids_ = std::max(end_of_ids_, entry["id"].get<std::uint64_t>() + 1);
    }
  }

  [[nodiscard]] std::optional<described_token> find(std::string const& content) const {
    auto const found = known_.find(content);
    if (found == known_.end()) return std::nullopt;
    return read_token(list_[found->second], "added_tokens");
  }

  [[nodiscard]] listed_tokens by_id() const {
    listed_tokens out;
    for (auto const& entry : list_)
      out.emplace(entry["id"].get<std::uint64_t>(), read_token(entry, "added_tokens"));
    return out;
  }

  /// Adds a token, or changes the flags of a known one. Throws if a new token gets another id than
  /// `named_id`, which `path` names.
  void add(described_token const& token, std::optional<std::uint64_t> named_id,
           std::string_view path) {
    if (token.content.empty()) return;
    auto const before = find(token.content);
    auto const in_vocabulary = vocabulary_.find(token.content);
    auto const id = before                               ? list_[known_[token.content]]["id"]
                    : in_vocabulary != vocabulary_.end() ? *in_vocabulary
                                                         : json(next_id());
    parallel::require(before || in_vocabulary != vocabulary_.end() || !named_id || id == *named_id,
                      path, ": the id of \"", token.content, "\", which tokenizer.json lacks, is ",
                      named_id.value_or(0), ", but Hugging Face's tokenizers would make it ",
                      id.dump(), ": new tokens follow those of tokenizer.json without gaps");
    auto changed = token;
    if (before) {  // special tokens stay special, and in the text in which they were found
      changed.special = token.special || before->special;
      changed.normalized = before->is_normalized() && (before->special || token.is_normalized());
      if (changed == *before) return;
    }
    json entry = {{"id", id},
                  {"content", token.content},
                  {"special", changed.special},
                  {"lstrip", token.lstrip},
                  {"rstrip", token.rstrip},
                  {"single_word", token.single_word},
                  {"normalized", changed.is_normalized()}};
    if (before) {
      list_[known_[token.content]] = std::move(entry);
      return;
    }
    known_.emplace(token.content, list_.size());
    if (id.is_number_unsigned()) end_of_ids_ = std::max(end_of_ids_, id.get<std::uint64_t>() + 1);
    list_.push_back(std::move(entry));
  }

 private:
  [[nodiscard]] std::uint64_t next_id() const {
    return std::max<std::uint64_t>(end_of_ids_, vocabulary_.size());
  }

  json& list_;
  json const& vocabulary_;
  std::map<std::string, std::size_t> known_;  // positions in the list
  std::uint64_t end_of_ids_ = 0;              // the largest id of an added token plus one
};

/// A token with a role. Given by its text alone, it has the flags of an added token of that text.
struct special_token {
  described_token token;
  bool has_flags = false;
};

/// The tokens and roles that the files of a tokenizer name.
class named_tokens {
 public:
  explicit named_tokens(tokenizer_files const& files)
      : config_(parse_object(files.config, config_file)),
        class_(find_tokenizer_class(config_)),
        lists_tokens_(config_.contains("added_tokens_decoder")),
        list_name_(lists_tokens_ ? parallel::concat(config_file, ": added_tokens_decoder")
                                 : std::string("added_tokens.json")) {
    if (lists_tokens_) return;
    added_ = parse_object(files.added_tokens, list_name_);
    auto const map = parse_object(files.special_tokens, "special_tokens_map.json");
    for (auto const& [key, value] : map.items())
      if (key == further && value.is_array() && config_[further].is_array())
        config_[further].insert(config_[further].end(), value.begin(), value.end());
      else
        config_[key] = value;
  }

  /// Adds the listed tokens in the order of their ids, then those that have roles.
  void add_to(added_token_list& tokens) const {
    auto const listed = lists_tokens_ ? read_decoder() : read_added_tokens(tokens);
    auto const specials = special_tokens(listed);
    auto const add = [&](described_token token, std::optional<std::uint64_t> id) {
      token.special = token.special || std::ranges::any_of(specials, [&](auto const& special) {
                        return special.token.content == token.content;
                      });
      tokens.add(token, id, list_name_);
    };
    for (auto const& [id, token] : listed) add(token, id);
    for (auto const& [token, has_flags] : specials)
      if (has_flags || !tokens.find(token.content)) add(token, std::nullopt);
  }

 private:
  static constexpr char const* further = "additional_special_tokens";

  /// The name of a role in errors.
  [[nodiscard]] std::string role_path(std::string const& role) const {
    return parallel::concat(config_file, lists_tokens_ ? "" : " or special_tokens_map.json", ": ",
                            role);
  }

  /// The tokens of added_tokens_decoder, by id.
  [[nodiscard]] listed_tokens read_decoder() const {
    listed_tokens by_id;
    auto const& list = config_["added_tokens_decoder"];
    parallel::require(list.is_object(), list_name_, " must be an object of id to token");
    for (auto const& [key, value] : list.items()) {
      std::uint64_t id = 0;
      auto const [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
      parallel::require(failure == std::errc() && end == key.data() + key.size(), list_name_,
                        ": \"", key, "\" must be an id, a whole number");
      parallel::require(value.is_object(), list_name_, ": ", key, " must be an object");
      by_id.emplace(id, read_token(value, parallel::concat(list_name_, ": ", key)));
    }
    return by_id;
  }

  /// The tokens of added_tokens.json and tokenizer.json, by id; those of tokenizer.json go first
  /// where both have an id.
  [[nodiscard]] listed_tokens read_added_tokens(added_token_list const& tokens) const {
    auto by_id = tokens.by_id();
    for (auto const& [content, id] : added_.items()) {
      parallel::require(id.is_number_unsigned(), list_name_, ": the id of \"", content,
                        "\" must be a whole number");
      bool const special = has_role(content);
      by_id.emplace(
          id.get<std::uint64_t>(),
          described_token{.content = content, .special = special, .normalized = !special});
    }
    return by_id;
  }

  /// Calls `visit(value, key, is_in_file)` for every token that has a role.
  template <class Visit>
  void for_each_role(Visit&& visit) const {
    for (std::string const role : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                                   "cls_token", "mask_token"}) {
      auto const found = config_.find(role);
      std::string const fallback(class_ == nullptr ? "" : class_->token(role));
      if (found != config_.end() && !found->is_null()) visit(*found, role, true);
      if (found == config_.end() && !fallback.empty()) visit(json(fallback), role, false);
    }
    for (std::string const key : {further, "extra_special_tokens"}) {
      auto const found = config_.find(key);
      if (found == config_.end() || found->is_null()) continue;
      parallel::require(found->is_array() || (found->is_object() && key != further), role_path(key),
                        " must be a list of tokens");
      for (auto const& value : *found) visit(value, key, true);
    }
  }

  [[nodiscard]] bool has_role(std::string const& content) const {
    bool out = false;
    for_each_role([&](json const& value, std::string const& key, bool is_in_file) {
      bool const is_object = value.contains("__type");  // read after added_tokens.json
      out =
          out || (is_in_file && !is_object && read_token(value, role_path(key)).content == content);
    });
    return out;
  }

  /// The tokens that have roles, each once. A role whose token is listed takes the flags of the
  /// list.
  [[nodiscard]] std::vector<special_token> special_tokens(listed_tokens const& listed) const {
    std::vector<special_token> out;
    for_each_role([&](json const& value, std::string const& key, bool is_in_file) {
      special_token special{read_token(value, role_path(key)), value.is_object()};
      bool const is_role = key.ends_with("_token");
      auto const described = std::ranges::find_if(
          listed, [&](auto const& entry) { return entry.second.content == special.token.content; });
      if (is_role && is_in_file && described != listed.end())
        special = {described->second, false};
      else if (class_ != nullptr && class_->resets_flags && is_role)
        special.has_flags =
            special.has_flags || (key != "sep_token" && key != "cls_token" && key != "mask_token");
      special.token.special = true;
      if (std::ranges::none_of(out, [&](special_token const& other) {
            return other.token.content == special.token.content;
          }))
        out.push_back(std::move(special));
    });
    return out;
  }

  json config_;  // with what special_tokens_map.json adds to it
  tokenizer_class const* class_;
  bool lists_tokens_;
  std::string list_name_;
  json added_ = json::object();
};

/// Whether the fields of a tokenizer.json that are changed here have the form that reading it
/// requires.
[[nodiscard]] bool has_expected_form(json const& file) {
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object()) return false;
  auto const vocabulary = file["model"].find("vocab");
  if (vocabulary == file["model"].end() || !vocabulary->is_object()) return false;
  auto const tokens = file.find("added_tokens");
  if (tokens == file.end() || tokens->is_null()) return true;
  return tokens->is_array() && std::ranges::all_of(*tokens, [](json const& token) {
           return token.is_object() && token.contains("content") && token["content"].is_string() &&
                  token.contains("id") && token["id"].is_number_unsigned();
         });
}

/// SentencePiece's steps as transformers makes them from a tokenizer.model.
void rebuild_sentencepiece(json& file, bool adds_space, bool is_legacy) {
  std::string const mark(metaspace::mark);
  file["normalizer"] = file["pre_tokenizer"] = nullptr;
  if (is_legacy) {
    auto steps = json::array();
    if (adds_space) steps.push_back({{"type", "Prepend"}, {"prepend", mark}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}});
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  } else {
    file["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", mark},
                             {"prepend_scheme", adds_space ? "first" : "never"},
                             {"split", false}};
  }
  auto steps =
      json::array({{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (adds_space)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
}

/// Applies add_prefix_space and, for Llama's class, legacy.
void set_prefix_space(json& file, json const& config) {
  bool const is_null = config.contains("add_prefix_space") && config["add_prefix_space"].is_null();
  bool const adds_space = flag_or(config, "add_prefix_space", false, config_file);
  auto const* const from_class = find_tokenizer_class(config);
  if (from_class != nullptr && from_class->name == "LlamaTokenizer") {
    bool const is_sentencepiece = file.contains("decoder") && file["decoder"].is_object() &&
                                  file["decoder"].value("type", json()) == "Sequence";
    if (config.contains("add_prefix_space") && !is_null && is_sentencepiece)
      rebuild_sentencepiece(file, adds_space, flag_or(config, "legacy", true, config_file));
    return;
  }
  auto const words = file.find("pre_tokenizer");
  bool const is_byte_level = words != file.end() && words->is_object() &&
                             words->value("type", json()) == "ByteLevel" &&
                             words->contains("add_prefix_space");
  if (is_byte_level && !is_null) (*words)["add_prefix_space"] = adds_space;
}

/// Puts the tokens around a text that the class of a tokenizer_config.json puts there.
void set_affixes(json& file, json const& config, tokenizer_files const& files) {
  auto const* const from_class = find_tokenizer_class(config);
  if (from_class == nullptr || !from_class->adds_bos) return;
  auto pieces = json::array();
  auto const add = [&](char const* flag, char const* role, bool fallback) {
    if (!flag_or(config, flag, fallback, config_file)) return true;
    auto const token = named_token(files, role);
    if (!token && !config.contains(flag)) return false;
    parallel::require(token.has_value(), config_file, ": ", flag, " is true, but its ", role,
                      " is not a token");
    pieces.push_back({{"SpecialToken", {{"id", *token}, {"type_id", 0}}}});
    return true;
  };
  if (!add("add_bos_token", "bos_token", *from_class->adds_bos)) return;
  pieces.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (!add("add_eos_token", "eos_token", false)) return;
  file["post_processor"] = {{"type", "TemplateProcessing"}, {"single", pieces}};
}

/// The fields on which the ids of a text depend and which the files next to tokenizer.json change.
[[nodiscard]] std::string changeable_fields(json const& file) {
  std::string out;
  for (char const* const field : {"added_tokens", "normalizer", "pre_tokenizer", "decoder"})
    out += file.value(field, json()).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return out;
}

}  // namespace

auto_tokenizer read_auto_tokenizer(tokenizer_files const& files) {
  auto_tokenizer out{parallel::checkpoint::parse_json(files.json, files.name()),
                     parallel::fnv1a(files.json) | 1};
  bool const is_alone =
      files.config.empty() && files.added_tokens.empty() && files.special_tokens.empty();
  if (is_alone || !has_expected_form(out.json)) return out;
  if (!out.json.contains("added_tokens") || out.json["added_tokens"].is_null())
    out.json["added_tokens"] = json::array();
  auto const before = changeable_fields(out.json);
  try {
    added_token_list tokens(out.json);
    named_tokens(files).add_to(tokens);
    if (!files.config.empty()) {
      auto const config = parse_object(files.config, config_file);
      set_prefix_space(out.json, config);
      set_affixes(out.json, config, files);
      out.splits_special_tokens = flag_or(config, "split_special_tokens", false, config_file);
    }
  } catch (parallel::error const& problem) {
    throw parallel::error(detail::without_control_characters(problem.what()));
  }
  auto const after =
      changeable_fields(out.json) + (out.splits_special_tokens ? "split_special_tokens" : "");
  if (after != before) out.fingerprint = parallel::fnv1a(files.json + after) | 1;
  return out;
}

}  // namespace mpt
