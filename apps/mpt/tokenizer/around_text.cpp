#include <mpt/tokenizer/around_text.hpp>

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/json.hpp>

namespace mpt {
namespace {

/// Adds what one post-processor puts around a text, outside of what is there.
void add_around(around_text& out, nlohmann::json const& processor, tokenizer const& words,
                std::string const& place) {
  auto const kind =
      processor.is_object() && processor.contains("type") && processor["type"].is_string()
          ? processor["type"].get<std::string>()
          : "";
  if (kind == "ByteLevel") return;  // moves offsets alone
  auto const members = [&](char const* key) -> nlohmann::json const& {
    auto const found = processor.find(key);
    parallel::require(found != processor.end() && found->is_array(), place, ": ", kind, " lacks ",
                      key, ", a list");
    return *found;
  };
  if (kind == "Sequence") {
    for (auto const& inner : members("processors")) {
      parallel::require(!inner.is_object() || inner.value("type", "") != "Sequence", place,
                        ": a Sequence within a Sequence is not supported");
      add_around(out, inner, words, place);
    }
    return;
  }
  parallel::require(kind == "TemplateProcessing", place, ": the type \"", kind,
                    "\" is not supported; expected ByteLevel, TemplateProcessing or a Sequence of "
                    "them");
  around_text added;
  bool text_seen = false;
  for (auto const& piece : members("single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      text_seen = true;
      continue;
    }
    auto const special = piece.is_object() ? piece.find("SpecialToken") : piece.end();
    parallel::require(piece.is_object() && special != piece.end() && special->is_object() &&
                          special->contains("id") && (*special)["id"].is_string(),
                      place,
                      ": TemplateProcessing.single holds a piece that is neither Sequence "
                      "nor SpecialToken");
    auto const name = (*special)["id"].get<std::string>();
    auto const id = words.id_of(name);
    parallel::require(id.has_value(), place, ": TemplateProcessing names the token \"", name,
                      "\", which the vocabulary lacks");
    (text_seen ? added.after : added.before).push_back(*id);
  }
  out.before.insert(out.before.begin(), added.before.begin(), added.before.end());
  out.after.insert(out.after.end(), added.after.begin(), added.after.end());
}

/// What GPT-NeoX's class puts around a text instead of what the post_processor says; nothing given
/// for other classes.
[[nodiscard]] std::optional<around_text> around_by_class(tokenizer const& words) {
  if (words.files().config.empty()) return std::nullopt;
  auto const config =
      parallel::checkpoint::parse_json(words.files().config, "tokenizer_config.json");
  auto const name = config.find("tokenizer_class");
  if (name == config.end() || !name->is_string()) return std::nullopt;
  auto const& made = name->get_ref<std::string const&>();
  if (made != "GPTNeoXTokenizer" && made != "GPTNeoXTokenizerFast") return std::nullopt;
  around_text out;
  auto const add = [&](char const* flag, char const* role, std::vector<std::int32_t>& to) {
    auto const found = config.find(flag);
    if (found == config.end() || !found->is_boolean() || !found->get<bool>()) return;
    auto const id = words.id_of_role(role);
    parallel::require(id.has_value(), "tokenizer_config.json: ", flag, " is true, but its ", role,
                      " is not a token");
    to.push_back(*id);
  };
  add("add_bos_token", "bos_token", out.before);
  add("add_eos_token", "eos_token", out.after);
  return out;
}

}  // namespace

around_text read_around_text(tokenizer const& words) {
  if (auto by_class = around_by_class(words)) return *std::move(by_class);
  auto const place = words.files().name() + ": post_processor";
  auto const json = parallel::checkpoint::parse_json(words.files().json, words.files().name());
  around_text out;
  auto const found = json.find("post_processor");
  if (found != json.end() && !found->is_null()) add_around(out, *found, words, place);
  return out;
}

std::vector<std::int32_t> encode_with(around_text const& around, tokenizer const& words,
                                      std::string_view text) {
  auto out = around.before;
  auto const inner = words.encode(text);
  out.insert(out.end(), inner.begin(), inner.end());
  out.insert(out.end(), around.after.begin(), around.after.end());
  return out;
}

}  // namespace mpt
