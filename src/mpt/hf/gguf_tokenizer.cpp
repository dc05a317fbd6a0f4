#include <mpt/hf/gguf_model.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/auto_tokenizer.hpp>
#include <mpt/tokenizer/bpe.hpp>
#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/chat/chat_template.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer_json.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <parallel/core/error.hpp>

namespace mpt::hf {
namespace {

/// The numbers that llama.cpp gives to kinds of tokens.
enum class token_type : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

/// A split into words that llama.cpp knows.
struct pre_tokenizer {
  word_pattern pattern;
  std::string_view name;   ///< tokenizer.ggml.pre
  bool takes_whole_words;  ///< a word that is a token needs no merges
  bool is_exact;           ///< its regular expression splits every text as the pattern does
};

/// Of the entries with one pattern, the first that takes whole words or not as the tokenizer does
/// is preferred.
constexpr std::array<pre_tokenizer, 7> pre_tokenizers{
    {{word_pattern::gpt2, "gpt-2", false, true},
     {word_pattern::llama3, "llama-bpe", true, true},
     {word_pattern::llama3, "dbrx", false, true},
     {word_pattern::qwen2, "qwen2", false, true},
     {word_pattern::qwen3_5, "qwen35", false, true},
     {word_pattern::gpt4o, "gpt-4o", false, false},
     {word_pattern::tekken, "tekken", true, false}}};

[[nodiscard]] std::set<std::int32_t> added_ids(tokenizer_parts const& parts) {
  std::set<std::int32_t> ids;
  for (auto const& token : parts.added) ids.insert(token.id);
  return ids;
}

/// Whether merges make every token of the model from its bytes; then whole words need no rule of
/// their own.
[[nodiscard]] bool merges_reach_all_tokens(tokenizer_parts const& parts) {
  auto const added = added_ids(parts);
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < parts.tokens.size(); ++id) {
    if (!parts.tokens.contains(id) || added.contains(id)) continue;
    ids.clear();
    for (char const byte : parts.tokens.bytes(id))
      ids.push_back(
          parts.tokens.id_of(byte_level::spell(static_cast<unsigned char>(byte))).value_or(-1));
    merge_word(parts.merges, ids);
    if (ids.size() != 1 || ids.front() != id) return false;
  }
  return true;
}

[[nodiscard]] pre_tokenizer find_pre_tokenizer(tokenizer_parts const& parts,
                                               std::string const& file) {
  parallel::require(parts.words.has_value(), file,
                    ": does not split text into words, which llama.cpp always does");
  parallel::require(!parts.add_prefix_space, file,
                    ": puts a space in front of a text (add_prefix_space), which llama.cpp does "
                    "not do for byte-level BPE");
  pre_tokenizer const* other = nullptr;
  for (auto const& candidate : pre_tokenizers) {
    if (candidate.pattern != *parts.words) continue;
    if (candidate.takes_whole_words == parts.whole_words_first) return candidate;
    other = &candidate;
  }
  parallel::require(other != nullptr, file,
                    ": llama.cpp has no name for its split of text into words");
  parallel::require(merges_reach_all_tokens(parts), file, ": its ignore_merges is ",
                    parts.whole_words_first ? "true" : "false", ", but llama.cpp's ", other->name,
                    " has it the other way, and some token differs by that");
  return *other;
}

/// The merges as lines of two tokens, in order.
[[nodiscard]] std::vector<std::string> merge_lines(nlohmann::json const& json) {
  std::vector<std::string> lines;
  for (auto const& line : json.at("model").at("merges")) {
    if (line.is_array())
      lines.push_back(line.at(0).get<std::string>() + " " + line.at(1).get<std::string>());
    else if (auto text = line.get<std::string>(); !text.starts_with("#version"))
      lines.push_back(std::move(text));
  }
  return lines;
}

/// A token's score for SentencePiece's merges: the later its merges, the lower.
class merge_scores {
 public:
  /// Throws when scores cannot stand for the merges.
  merge_scores(tokenizer_parts const& parts, std::vector<std::string> const& lines,
               std::string const& file)
      : parts_(parts), file_(file) {
    std::int32_t previous = -1;
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
      auto text = lines[rank];
      text.erase(text.find(' '), 1);
      auto const id = parts.tokens.id_of(text).value_or(-1);
      parallel::require(id == previous || !ranks_.contains(id), file,
                        ": the merges that make the token ", id,
                        " do not follow each other; llama.cpp has one score for a token");
      ranks_.emplace(id, rank);
      previous = id;
    }
    auto const added = added_ids(parts);
    for (std::int32_t id = 0; id < parts.tokens.size(); ++id)
      if (parts.tokens.contains(id) && !added.contains(id)) require_all_splits(id);
  }

  [[nodiscard]] float operator()(std::int32_t id) const {
    auto const found = ranks_.find(id);
    return -static_cast<float>(found == ranks_.end() ? ranks_.size() : found->second);
  }

 private:
  /// Throws when a token can be made of two tokens that no merge joins.
  void require_all_splits(std::int32_t id) const {
    auto const text = parts_.tokens.spelling(id);
    if (metaspace::byte_of(text)) return;
    for (std::size_t end = utf8::read(text, 0).bytes; end < text.size();
         end += utf8::read(text, end).bytes) {
      auto const left = parts_.tokens.id_of(text.substr(0, end));
      auto const right = parts_.tokens.id_of(text.substr(end));
      parallel::require(!left || !right || parts_.merges.find(*left, *right) != nullptr, file_,
                        ": no merge joins the tokens ", left.value_or(-1), " and ",
                        right.value_or(-1), " to the token ", id,
                        ", but llama.cpp would join them");
    }
  }

  tokenizer_parts const& parts_;
  std::string const& file_;
  std::unordered_map<std::int32_t, std::size_t> ranks_;
};

/// The tokens of all rows of the embeddings.
struct token_list {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

[[nodiscard]] token_list list_tokens(tokenizer_parts const& parts, std::int64_t vocab_size,
                                     std::optional<std::int32_t> unknown) {
  std::map<std::int32_t, added_token const*> added;
  for (auto const& token : parts.added) added[token.id] = &token;
  bool const is_byte_level = parts.tokens.decoding().byte_level;
  token_list list;
  auto const append = [&](std::string text, token_type type) {
    list.texts.push_back(std::move(text));
    list.types.push_back(static_cast<std::int32_t>(type));
  };
  for (std::int32_t id = 0; id < vocab_size; ++id) {
    if (!parts.tokens.contains(id)) {
      auto text = parallel::concat("[PAD", id, "]");
      while (parts.tokens.id_of(text)) text += "]";
      append(std::move(text), token_type::unused);
      continue;
    }
    std::string const text(parts.tokens.spelling(id));
    auto const found = added.find(id);
    if (id == unknown)
      append(text, token_type::unknown);
    else if (found != added.end() && found->second->special)
      append(text, token_type::control);
    else if (found != added.end())  // it is looked for in the text itself
      append(is_byte_level ? text : metaspace::read(text), token_type::user_defined);
    else
      append(text,
             !is_byte_level && metaspace::byte_of(text) ? token_type::byte : token_type::normal);
  }
  return list;
}

void require_distinct(token_list const& list, std::string const& file) {
  auto texts = list.texts;
  std::ranges::sort(texts);
  parallel::require(std::ranges::adjacent_find(texts) == texts.end(), file,
                    ": two tokens have the same text once \"▁\" is read as a space, which "
                    "llama.cpp does not allow");
}

/// The fields of a tokenizer in the making.
class field_list {
 public:
  explicit field_list(gguf_tokenizer& out) : out_(out) {}
  void add(std::string_view name, gguf_value value) {
    out_.fields.push_back({parallel::concat("tokenizer.ggml.", name), std::move(value)});
  }
  void add_id(std::string_view name, std::optional<std::int64_t> id) {
    if (id) add(parallel::concat(name, "_token_id"), static_cast<std::uint32_t>(*id));
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

 private:
  gguf_tokenizer& out_;
};

/// Writes the tokens that begin and end a text, and whether they are added to it.
void add_ends(tokenizer const& tokenizer, std::span<std::int64_t const> end_tokens,
              std::int64_t vocab_size, field_list& out) {
  auto const& file = tokenizer.files().name();
  auto const affixes = read_text_affixes(tokenizer);
  auto begin = tokenizer.id_of_role("bos_token");
  std::optional<std::int64_t> end = tokenizer.eos_id();
  std::vector<std::int64_t> ends(end_tokens.begin(), end_tokens.end());
  std::erase_if(ends, [&](std::int64_t id) { return id < 0 || id >= vocab_size; });
  if (!ends.empty() && (!end || std::ranges::find(ends, *end) == ends.end())) end = ends.front();
  parallel::require(affixes.prefix.size() <= 1 && affixes.suffix.size() <= 1, file,
                    ": puts several tokens before or after a text; llama.cpp puts one at most");
  if (!affixes.prefix.empty()) begin = affixes.prefix.front();
  parallel::require(affixes.suffix.empty() || end == affixes.suffix.front(), file,
                    ": puts the token ", affixes.suffix.empty() ? -1 : affixes.suffix.front(),
                    " after a text, which is not the one that ends texts; llama.cpp puts that one");
  if (!end)
    out.note(
        "the tokenizer names no token that ends a text; llama.cpp takes one of its own choice");
  out.add_id("bos", begin ? std::optional<std::int64_t>(*begin) : end);  // else it takes token 11
  out.add_id("eos", end);
  auto const other = std::ranges::find_if(ends, [&](std::int64_t id) { return id != end; });
  if (other != ends.end()) out.add_id("eot", *other);
  if (std::ranges::count_if(ends, [&](std::int64_t id) { return id != end; }) > 1)
    out.note(
        "a GGUF file names two tokens that end a text; of the model's further ones llama.cpp knows "
        "those with usual names alone");
  out.add_id("padding", tokenizer.id_of_role("pad_token"));
  out.add("add_bos_token", !affixes.prefix.empty());
  out.add("add_eos_token", !affixes.suffix.empty());
}

void add_text_notes(tokenizer_parts const& parts, field_list& out) {
  if (parts.normalizer.nfc)
    out.note(
        "llama.cpp does not bring text to Unicode's form NFC, as this tokenizer does; text "
        "in another form gets other ids there");
  bool const has_rules = std::ranges::any_of(parts.added, [](added_token const& token) {
    return token.rules.strip_left || token.rules.strip_right || token.rules.whole_word;
  });
  if (has_rules)
    out.note(
        "llama.cpp ignores lstrip, rstrip and single_word of added tokens; white space next to "
        "them stays in the text there");
}

void add_byte_level(tokenizer_parts const& parts, std::vector<std::string> lines,
                    std::string const& file, field_list& out) {
  auto const pre = find_pre_tokenizer(parts, file);
  out.add("model", std::string("gpt2"));
  out.add("pre", std::string(pre.name));
  out.add("merges", std::move(lines));
  if (!pre.is_exact)
    out.note(parallel::concat("llama.cpp's split of text into words for ", pre.name,
                              " approximates this tokenizer's; capitals beyond ASCII may get other "
                              "ids there"));
}

void add_sentencepiece(tokenizer_parts const& parts, std::vector<std::string> const& lines,
                       std::int64_t vocab_size, std::string const& file, field_list& out) {
  merge_scores const score(parts, lines, file);
  parallel::require(parts.characters.has_all_bytes(), file,
                    ": lacks tokens of bytes, of which llama.cpp makes unknown characters; it "
                    "would stop at the first such character");
  bool const has_prefix =
      parts.normalizer.prepend_mark ||
      (parts.metaspace && parts.metaspace->prefix != metaspace::prefix_scheme::never);
  if (!parts.normalizer.prepend_mark && has_prefix)
    out.note(
        "llama.cpp puts a space in front of a text that begins with one, and after added "
        "tokens, where this tokenizer may not");
  out.add("model", std::string("llama"));
  out.add("pre", std::string("default"));
  out.add("add_space_prefix", has_prefix);
  std::vector<float> scores;
  for (std::int32_t id = 0; id < vocab_size; ++id) scores.push_back(score(id));
  out.add("scores", std::move(scores));
}

}  // namespace

gguf_tokenizer gguf_tokenizer_of(tokenizer const& tokenizer, std::int64_t vocab_size,
                                 std::span<std::int64_t const> end_tokens) {
  auto const file = tokenizer.files().name();
  parallel::require(tokenizer.size() <= vocab_size, file, ": has ids up to ", tokenizer.size() - 1,
                    ", but those of the model end at ", vocab_size - 1);
  auto const json = read_auto_tokenizer(tokenizer.files()).json;
  auto const parts = read_tokenizer_parts(json, file);
  gguf_tokenizer out;
  field_list fields(out);
  auto lines = merge_lines(json);
  bool const is_byte_level = parts.tokens.decoding().byte_level;
  if (is_byte_level)
    add_byte_level(parts, std::move(lines), file, fields);
  else
    add_sentencepiece(parts, lines, vocab_size, file, fields);
  auto unknown = tokenizer.id_of_role("unk_token");
  if (auto const name = json.at("model").find("unk_token");
      name != json.at("model").end() && name->is_string())
    unknown = parts.tokens.id_of(name->get<std::string>());
  auto list = list_tokens(parts, vocab_size, is_byte_level ? std::nullopt : unknown);
  require_distinct(list, file);
  fields.add("tokens", std::move(list.texts));
  fields.add("token_type", std::move(list.types));
  fields.add_id("unknown", unknown ? std::optional<std::int64_t>(*unknown) : std::nullopt);
  add_ends(tokenizer, end_tokens, vocab_size, fields);
  add_text_notes(parts, fields);
  if (auto const chat = read_chat_template(tokenizer.files()))
    out.fields.push_back({"tokenizer.chat_template", chat->text});
  return out;
}

std::vector<gguf_field> gguf_fields_without_tokenizer() {
  return {{"tokenizer.ggml.model", std::string("no_vocab")}};
}

}  // namespace mpt::hf
