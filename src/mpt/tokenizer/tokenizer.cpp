#include <mpt/tokenizer/tokenizer.hpp>

#include <algorithm>
#include <utility>

#include <mpt/tokenizer/auto_tokenizer.hpp>
#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

tokenizer tokenizer::load(std::filesystem::path const& file_or_folder) {
  return tokenizer(read_tokenizer_files(file_or_folder));
}

tokenizer::tokenizer(tokenizer_files files) : files_(std::move(files)) {
  auto const read = read_auto_tokenizer(files_);
  fingerprint_ = read.fingerprint;
  parts_ = read_tokenizer_parts(read.json, files_.name());
  for (std::size_t byte = 0; byte < 256; ++byte) {
    auto const spelling = byte_level::spell(static_cast<unsigned char>(byte));
    bytes_[byte] = id_of(spelling).value_or(-1);  // -1 only for bytes that UTF-8 never has
  }
  // If two tokens have the same normalised spelling, special tokens come first, as in the
  // reference.
  for (bool const special : {true, false})
    for (auto const& token : parts_.added) {
      if (token.special != special) continue;
      bool const raw = token.stage == match_stage::raw;
      auto const spelling = raw ? token.content : parts_.normalizer.apply(token.content);
      if (!special || !read.splits_special_tokens)
        (raw ? in_raw_text_ : in_normal_text_).insert(spelling, token.id, token.rules);
      if (!token.is_in_model) outside_model_.push_back(token.id);
      if (special) special_ids_.push_back(token.id);
    }
  std::sort(outside_model_.begin(), outside_model_.end());
  std::sort(special_ids_.begin(), special_ids_.end());
  eos_id_ = id_of_role("eos_token");
}

std::vector<std::int32_t> tokenizer::encode(std::string_view text) const {
  word_cache cache(std::clamp<std::size_t>(text.size() / 8, 1, std::size_t{1} << 14));
  std::vector<std::int32_t> ids;
  encode(text, ids, cache);
  return ids;
}

void tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out,
                       word_cache& cache) const {
  parallel::require(text.size() < longest_text, "a text of ", text.size(),
                    " bytes cannot be encoded at once; split it below ", longest_text, " bytes");
  cache.belong_to(fingerprint_);
  if (utf8::is_valid(text)) {
    encode_valid(text, out, cache);
  } else {
    encode_valid(utf8::lossy(text), out, cache);
  }
}

std::string tokenizer::decode(std::span<std::int32_t const> ids, special_tokens special) const {
  if (!decoding().byte_level) {
    stream_decoder decoder(*this, special);
    std::string text;
    for (auto const id : ids) text += decoder.push(id);
    return text += decoder.finish();
  }
  std::string bytes;
  for (auto const id : ids)
    if (special == special_tokens::keep || !is_special(id)) bytes += bytes_of(id);
  return utf8::is_valid(bytes) ? bytes : utf8::lossy(bytes);
}

std::string_view tokenizer::bytes_of(std::int32_t id) const {
  parallel::require(parts_.tokens.contains(id), files_.name(), ": there is no token with id ", id,
                    "; ids are below ", size());
  return parts_.tokens.bytes(id);
}

bool tokenizer::is_byte(std::int32_t id) const {
  return parts_.tokens.contains(id) && parts_.tokens.is_byte(id);
}

std::optional<std::int32_t> tokenizer::id_of(std::string_view token) const {
  return parts_.tokens.id_of(token);
}

std::optional<std::string> tokenizer::token_of(std::int32_t id) const {
  if (!parts_.tokens.contains(id)) return std::nullopt;
  return std::string(parts_.tokens.spelling(id));
}

std::optional<std::int32_t> tokenizer::id_of_role(char const* role) const {
  auto const token = named_token(files_, role);
  return token ? id_of(*token) : std::nullopt;
}

bool tokenizer::is_special(std::int32_t id) const {
  return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
}

void tokenizer::save(std::filesystem::path const& folder) const {
  auto copy = files_;
  if (copy.config.empty())
    copy.config = make_tokenizer_config(id_of("<|endoftext|>") ? "<|endoftext|>" : "", 0);
  write_tokenizer_files(copy, folder);
}

void tokenizer::encode_valid(std::string_view text, std::vector<std::int32_t>& out,
                             word_cache& cache) const {
  in_raw_text_.split(
      text,
      [&](std::string_view piece) {
        bool const begins_text = piece.data() == text.data();
        if (parts_.normalizer.may_change(piece))
          encode_normal(parts_.normalizer.apply(piece), begins_text, out, cache);
        else
          encode_normal(piece, begins_text, out, cache);
      },
      [&](std::int32_t id) { out.push_back(id); });
}

void tokenizer::encode_normal(std::string_view text, bool begins_text,
                              std::vector<std::int32_t>& out, word_cache& cache) const {
  in_normal_text_.split(
      text,
      [&](std::string_view piece) {
        if (decoding().byte_level)
          encode_byte_level(piece, out, cache);
        else
          encode_sentencepiece(piece, begins_text && piece.data() == text.data(), out, cache);
      },
      [&](std::int32_t id) { out.push_back(id); });
}

void tokenizer::encode_byte_level(std::string_view text, std::vector<std::int32_t>& out,
                                  word_cache& cache) const {
  std::string prefixed;
  if (parts_.add_prefix_space && text.front() != ' ') text = prefixed.append(" ").append(text);
  if (parts_.words)
    split_words(text, *parts_.words, [&](std::string_view word) { encode_word(word, out, cache); });
  else
    encode_word(text, out, cache);
}

void tokenizer::encode_sentencepiece(std::string_view text, bool begins_text,
                                     std::vector<std::int32_t>& out, word_cache& cache) const {
  std::string spelt;
  bool is_split = false;
  if (parts_.metaspace) {
    spelt = metaspace::spell(text);
    bool const has_prefix =
        parts_.metaspace->prefix == metaspace::prefix_scheme::always ||
        (parts_.metaspace->prefix == metaspace::prefix_scheme::first && begins_text);
    if (has_prefix && !spelt.starts_with(metaspace::mark)) spelt.insert(0, metaspace::mark);
    text = spelt;
    is_split = parts_.metaspace->split;
  }
  // Words that no merge joins may be merged one by one, unless the whole text may be one token.
  bool const is_divisible = !parts_.merges_join_words && !parts_.whole_words_first;
  if (!is_split && !is_divisible) return encode_word(text, out, cache);
  for (std::size_t position = 0; position < text.size();) {
    auto const end = metaspace::end_of_word(text, position, !is_split);
    encode_word(text.substr(position, end - position), out, cache);
    position = end;
  }
}

void tokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& out,
                            word_cache& cache) const {
  if (auto const known = cache.find(word); !known.empty()) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  auto& ids = cache.scratch();
  ids.clear();
  if (parts_.whole_words_first)
    if (auto const whole = token_of_word(word); whole) ids.push_back(*whole);
  if (ids.empty()) {
    if (decoding().byte_level)
      for (char const byte : word) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
    else
      parts_.characters.append(word, ids);
    merge_word(parts_.merges, ids);
  }
  cache.keep(word, ids);
  out.insert(out.end(), ids.begin(), ids.end());
}

std::optional<std::int32_t> tokenizer::token_of_word(std::string_view word) const {
  auto const id = decoding().byte_level ? id_of(byte_level::spell(word)) : id_of(word);
  bool const is_in_model =
      id && !std::binary_search(outside_model_.begin(), outside_model_.end(), *id);
  return is_in_model ? id : std::nullopt;
}

std::string why_without_end(tokenizer const& tokenizer) {
  auto const named = named_token(tokenizer.files(), "eos_token");
  if (!named) return "tokenizer_config.json names no eos_token";
  return parallel::concat("its eos_token '", named->substr(0, 60), "' is not in tokenizer.json");
}

std::int32_t require_end(tokenizer const& tokenizer, std::string_view need) {
  auto const id = tokenizer.eos_id();
  parallel::require(
      id.has_value(), tokenizer.files().name(), ": has no end-of-text token (",
      id ? "" : why_without_end(tokenizer), "): ", need,
      "; name one of its tokens as \"eos_token\" in the tokenizer_config.json next to "
      "it");
  return id.value_or(0);
}

}  // namespace mpt
