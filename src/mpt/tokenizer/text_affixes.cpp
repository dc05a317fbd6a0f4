#include <mpt/tokenizer/text_affixes.hpp>

#include <string>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/auto_tokenizer.hpp>

namespace mpt {
namespace {

/// Adds the affixes of one post-processor outside of those in `out`.
void add_affixes(text_affixes& out, nlohmann::json const& processor, tokenizer const& tokenizer,
                 std::string const& location) {
  auto const kind =
      processor.is_object() && processor.contains("type") && processor["type"].is_string()
          ? processor["type"].get<std::string>()
          : "";
  if (kind == "ByteLevel") return;  // changes offsets only
  auto const members = [&](char const* key) -> nlohmann::json const& {
    auto const found = processor.find(key);
    parallel::require(found != processor.end() && found->is_array(), location, ": ", kind,
                      " lacks ", key, ", a list");
    return *found;
  };
  if (kind == "Sequence") {
    for (auto const& inner : members("processors")) {
      parallel::require(!inner.is_object() || inner.value("type", "") != "Sequence", location,
                        ": a Sequence within a Sequence is not supported");
      add_affixes(out, inner, tokenizer, location);
    }
    return;
  }
  parallel::require(kind == "TemplateProcessing", location, ": the type \"", kind,
                    "\" is not supported; expected ByteLevel, TemplateProcessing or a Sequence of "
                    "them");
  text_affixes added;
  bool text_seen = false;
  for (auto const& piece : members("single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      text_seen = true;
      continue;
    }
    auto const special = piece.is_object() ? piece.find("SpecialToken") : piece.end();
    parallel::require(piece.is_object() && special != piece.end() && special->is_object() &&
                          special->contains("id") && (*special)["id"].is_string(),
                      location,
                      ": TemplateProcessing.single holds a piece that is neither Sequence "
                      "nor SpecialToken");
    auto const name = (*special)["id"].get<std::string>();
    auto const id = tokenizer.id_of(name);
    parallel::require(id.has_value(), location, ": TemplateProcessing names the token \"", name,
                      "\", which the vocabulary lacks");
    (text_seen ? added.suffix : added.prefix).push_back(*id);
  }
  out.prefix.insert(out.prefix.begin(), added.prefix.begin(), added.prefix.end());
  out.suffix.insert(out.suffix.end(), added.suffix.begin(), added.suffix.end());
}

}  // namespace

text_affixes read_text_affixes(tokenizer const& tokenizer) {
  auto const location = tokenizer.files().name() + ": post_processor";
  auto const json = read_auto_tokenizer(tokenizer.files()).json;
  text_affixes out;
  auto const found = json.find("post_processor");
  if (found != json.end() && !found->is_null()) add_affixes(out, *found, tokenizer, location);
  return out;
}

std::vector<std::int32_t> encode_with_affixes(text_affixes const& affixes,
                                              tokenizer const& tokenizer, std::string_view text) {
  auto out = affixes.prefix;
  auto const inner = tokenizer.encode(text);
  out.insert(out.end(), inner.begin(), inner.end());
  out.insert(out.end(), affixes.suffix.begin(), affixes.suffix.end());
  return out;
}

}  // namespace mpt
