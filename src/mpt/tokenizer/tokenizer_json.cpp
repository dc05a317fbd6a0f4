#include <mpt/tokenizer/tokenizer_json.hpp>

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/nfc.hpp>

namespace mpt {
namespace {

/// The id that the file gives `token`. Throws unless a vocabulary can hold it. `path` begins the
/// message.
[[nodiscard]] std::int32_t checked_id(nlohmann::json const& value, std::string_view path,
                                      std::string_view token) {
  auto const valid = value.is_number_unsigned() &&
                     value.get<std::uint64_t>() < std::uint64_t{vocabulary::id_limit};
  parallel::require(valid, path, ": the id of \"", token, "\" must be a whole number from 0 to ",
                    vocabulary::id_limit - 1);
  return static_cast<std::int32_t>(value.get<std::uint64_t>());
}

void read_vocabulary(detail::json_fields const& model, tokenizer_parts& parts) {
  auto const path = model.path_of("vocab");
  auto const& vocab = model.get("vocab");
  parallel::require(vocab.is_object(), path, " must be an object of token to id, not ",
                    std::string_view(vocab.type_name()));
  for (auto const& [token, value] : vocab.items()) {
    parallel::require(!token.empty(), path, " holds an empty token");
    auto const id = checked_id(value, path, token);
    parallel::require(parts.tokens.insert(token, id) == vocabulary::outcome::added, path,
                      ": the id ", id, " belongs to two tokens, one is \"", token, "\"");
  }
}

/// Throws unless every byte that occurs in UTF-8 is a token of byte-level BPE.
void require_all_bytes(detail::json_fields const& model, tokenizer_parts const& parts) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    auto const spelling = byte_level::spell(static_cast<unsigned char>(byte));
    parallel::require(!byte_level::occurs_in_utf8(byte) || parts.tokens.id_of(spelling).has_value(),
                      model.path_of("vocab"), " has no token for byte ", byte, " (spelt \"",
                      spelling, "\"): every byte of UTF-8 is needed, else some text has no ids");
  }
}

/// Reads what a character without a token becomes in SentencePiece's BPE: its bytes or unk_token.
void read_characters(detail::json_fields const& model, tokenizer_parts& parts) {
  unknown_rules unknown{.use_bytes = model.flag_or("byte_fallback", false),
                        .fuse = model.flag_or("fuse_unk", false)};
  if (model.find("unk_token") != nullptr) {
    auto const& token = model.text("unk_token");
    auto const id = parts.tokens.id_of(token);
    parallel::require(id.has_value(), model.path_of("unk_token"), ": \"", token,
                      "\" is not in model.vocab");
    unknown.id = *id;
  }
  parts.characters = character_tokens(parts.tokens, unknown);
  parallel::require(unknown.id >= 0 || parts.characters.has_all_bytes(), model.path_of("vocab"),
                    " has neither an unk_token nor, with byte_fallback, the tokens <0x00> to <0xF4>"
                    " of every byte of UTF-8: some text would have no ids");
}

/// Throws unless the model is BPE. Old files name no type, but have merges.
void require_bpe(detail::json_fields const& model) {
  if (model.find("type") != nullptr || model.find("merges") == nullptr)
    model.require_text("type", "BPE", ", byte-level or SentencePiece's");
}

/// The two halves of a merge, given as "a b" or ["a", "b"].
struct merge_halves {
  std::string_view left;
  std::string_view right;
};

[[nodiscard]] merge_halves read_merge(nlohmann::json const& value, std::string_view path,
                                      std::size_t index) {
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string())
    return {value[0].get_ref<std::string const&>(), value[1].get_ref<std::string const&>()};
  std::string_view const text =
      value.is_string() ? std::string_view(value.get_ref<std::string const&>()) : "";
  auto const space = text.find(' ');
  parallel::require(
      space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos, path,
      "[", index, "] must be two tokens, as \"a b\" or [\"a\", \"b\"]");
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(detail::json_fields const& model, tokenizer_parts& parts) {
  auto const path = model.path_of("merges");
  auto const& merges = model.get("merges");
  parallel::require(merges.is_array(), path, " must be an array, not ",
                    std::string_view(merges.type_name()));
  parts.merges = merge_table(merges.size());
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    // Some files still have the first line of merges.txt, an older format, among the merges.
    if (merges[i].is_string() && merges[i].get_ref<std::string const&>().starts_with("#version"))
      continue;
    auto const [left, right] = read_merge(merges[i], path, i);
    auto const id_of = [&](std::string_view token, std::string_view token_name) {
      auto const id = parts.tokens.id_of(token);
      parallel::require(id.has_value(), path, "[", i, "]: ", token_name, " \"", token,
                        "\" is not in model.vocab");
      return *id;
    };
    auto const left_id = id_of(left, "the left token");
    auto const right_id = id_of(right, "the right token");
    auto const joined = std::string(left).append(right);
    auto const merged = id_of(joined, "the merged token");
    parts.merges_join_words = parts.merges_join_words || metaspace::joins_words(joined);
    parallel::require(parts.merges.insert(left_id, right_id, {rank, merged}), path, "[", i,
                      "]: the pair \"", left, "\" \"", right, "\" has been merged before");
    ++rank;
  }
}

void read_added_tokens(detail::json_fields const& root, std::string const& name,
                       tokenizer_parts& parts) {
  constexpr std::size_t max_bytes = 1024;
  auto const model_tokens = static_cast<std::int32_t>(parts.tokens.count());
  std::int32_t largest_id = -1;  // of the added tokens so far
  std::unordered_set<std::string_view> listed;
  auto const* const list = root.find("added_tokens");
  if (list == nullptr) return;
  parallel::require(list->is_array(), root.path_of("added_tokens"), " must be an array, not ",
                    std::string_view(list->type_name()));
  for (std::size_t i = 0; i < list->size(); ++i) {
    detail::json_fields const token((*list)[i], name, parallel::concat("added_tokens[", i, "]"));
    auto const& content = token.text("content");
    parallel::require(!content.empty() && content.size() <= max_bytes, token.path_of("content"),
                      " must have 1 to ", max_bytes, " bytes, not ", content.size());
    auto const id = checked_id(token.get("id"), token.path_of("id"), content);
    parallel::require(listed.insert(content).second, token.path_of("content"), ": \"", content,
                      "\" is listed twice");
    auto const known = parts.tokens.id_of(content);
    parallel::require(!known || *known == id, token.path_of("id"), " is ", id, ", but \"", content,
                      "\" has id ", known.value_or(-1), " in model.vocab");
    // Hugging Face's tokenizers give each token that model.vocab lacks the next id, whatever id the
    // file says.
    auto const expected = largest_id >= model_tokens ? largest_id + 1 : model_tokens;
    parallel::require(known || id == expected, token.path_of("id"), " of \"", content, "\" is ", id,
                      ", but Hugging Face's tokenizers would make it ", expected,
                      ": added tokens must follow the model's, in order and without gaps");
    parallel::require(known || parts.tokens.insert(content, id) == vocabulary::outcome::added,
                      token.path_of("id"), ": id ", id, " of \"", content,
                      "\" belongs to another token");
    largest_id = std::max(largest_id, id);
    bool const special = token.flag_or("special", false);
    bool const normalised = token.flag_or("normalized", !special);
    parts.added.push_back({.content = content,
                           .id = id,
                           .special = special,
                           .is_in_model = known.has_value(),
                           .stage = normalised ? match_stage::normalised : match_stage::raw,
                           .rules = {.strip_left = token.flag_or("lstrip", false),
                                     .strip_right = token.flag_or("rstrip", false),
                                     .whole_word = token.flag_or("single_word", false)}});
  }
}

}  // namespace

tokenizer_parts read_tokenizer_json(std::string_view text, std::string const& name) {
  return read_tokenizer_parts(parallel::checkpoint::parse_json(text, name), name);
}

tokenizer_parts read_tokenizer_parts(nlohmann::json const& json, std::string const& name) {
  try {
    detail::json_fields const root(json, name, "");
    tokenizer_parts parts;
    require_bpe(root.object("model"));
    detail::read_text_steps(root, parts);
    detail::read_model(root, parts);
    read_added_tokens(root, name, parts);
    return parts;
  } catch (parallel::error const& problem) {
    throw parallel::error(detail::without_control_characters(problem.what()));
  }
}

}  // namespace mpt

namespace mpt::detail {

std::string without_control_characters(std::string message) {
  std::ranges::replace_if(
      message, [](unsigned char byte) { return (byte < 0x20 && byte != '\n') || byte == 0x7f; },
      '?');
  return message;
}

json_fields::json_fields(nlohmann::json const& object, std::string name, std::string path)
    : object_(object), name_(std::move(name)), path_(std::move(path)) {
  parallel::require(object.is_object(), name_, ": ", path_.empty() ? "the file" : path_.c_str(),
                    " must be an object, not ", std::string_view(object.type_name()));
}

std::string json_fields::path_of(std::string_view field) const {
  return parallel::concat(name_, ": ", path_, path_.empty() ? "" : ".", field);
}

nlohmann::json const* json_fields::find(char const* field) const {
  auto const found = object_.find(field);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

nlohmann::json const& json_fields::get(char const* field) const {
  auto const* const value = find(field);
  parallel::require(value != nullptr, path_of(field), " is missing");
  return *value;
}

json_fields json_fields::object(char const* field) const {
  return {get(field), name_, path_.empty() ? field : path_ + "." + field};
}

std::vector<json_fields> json_fields::objects(char const* field) const {
  auto const& values = get(field);
  parallel::require(values.is_array(), path_of(field), " must be an array, not ",
                    std::string_view(values.type_name()));
  auto const path = path_.empty() ? std::string(field) : path_ + "." + field;
  std::vector<json_fields> out;
  for (std::size_t i = 0; i < values.size(); ++i)
    out.emplace_back(values[i], name_, parallel::concat(path, "[", i, "]"));
  return out;
}

std::string const& json_fields::text(char const* field) const {
  auto const& value = get(field);
  parallel::require(value.is_string(), path_of(field), " must be a string, not ",
                    std::string_view(value.type_name()));
  return value.get_ref<std::string const&>();
}

bool json_fields::flag(char const* field) const {
  auto const& value = get(field);
  parallel::require(value.is_boolean(), path_of(field), " must be true or false, not ",
                    std::string_view(value.type_name()));
  return value.get<bool>();
}

bool json_fields::flag_or(char const* field, bool fallback) const {
  return find(field) == nullptr ? fallback : flag(field);
}

void json_fields::require_text(char const* field, std::string_view expected,
                               std::string_view context) const {
  auto const& value = text(field);
  parallel::require(value == expected, path_of(field), " is \"", value, "\"; only \"", expected,
                    "\" is supported", context);
}

void read_model(json_fields const& root, tokenizer_parts& parts) {
  auto const model = root.object("model");
  parallel::require(
      model.find("dropout") == nullptr, model.path_of("dropout"),
      " is set; encoding here is deterministic and has no BPE dropout: set it to null");
  bool const byte_level = parts.tokens.decoding().byte_level;
  parallel::require(!byte_level || !model.flag_or("byte_fallback", false),
                    model.path_of("byte_fallback"),
                    " is true; byte-level BPE, which the decoder ByteLevel asks for, needs no "
                    "fallback");
  for (char const* const field : {"continuing_subword_prefix", "end_of_word_suffix"})
    parallel::require(model.find(field) == nullptr || model.text(field).empty(),
                      model.path_of(field),
                      " is set, which is not supported: neither byte-level BPE nor SentencePiece's "
                      "has one");
  parts.whole_words_first = model.flag_or("ignore_merges", false);
  read_vocabulary(model, parts);
  if (byte_level)
    require_all_bytes(model, parts);
  else
    read_characters(model, parts);
  read_merges(model, parts);
}

}  // namespace mpt::detail

namespace mpt {

bool text_normalizer::may_change(std::string_view text) const {
  if (prepend_mark && !text.empty()) return true;
  if (replace_spaces && text.find(' ') != std::string_view::npos) return true;
  return nfc && first_unstable(text) != text.size();
}

std::string text_normalizer::apply(std::string_view text) const {
  std::string out = nfc ? mpt::nfc(text) : std::string(text);
  if (prepend_mark && !out.empty()) out.insert(0, metaspace::mark);
  return replace_spaces ? metaspace::spell(out) : out;
}

}  // namespace mpt
