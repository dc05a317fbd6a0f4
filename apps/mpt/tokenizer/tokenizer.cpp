#include <mpt/tokenizer/tokenizer.hpp>

#include <algorithm>
#include <utility>

#include <mpt/tokenizer/nfc.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <parallel/core/hash.hpp>

namespace mpt {

std::uint64_t tokenizer_fingerprint(std::string_view json) { return parallel::fnv1a(json) | 1; }

tokenizer tokenizer::load(std::filesystem::path const& file_or_folder) {
  return tokenizer(read_tokenizer_files(file_or_folder));
}

tokenizer::tokenizer(tokenizer_files files)
    : files_(std::move(files)), parts_(read_tokenizer_json(files_.json, files_.name())) {
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
      auto const spelling = raw || !parts_.normalise_nfc ? token.content : nfc(token.content);
      (raw ? in_raw_text_ : in_normal_text_).insert(spelling, token.id, token.strip);
      if (special) special_ids_.push_back(token.id);
    }
  std::sort(special_ids_.begin(), special_ids_.end());
  eos_id_ = id_of_role("eos_token");
  fingerprint_ = tokenizer_fingerprint(files_.json);
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
        auto const unstable = parts_.normalise_nfc ? first_unstable(piece) : piece.size();
        if (unstable == piece.size())
          encode_normal(piece, out, cache);
        else
          encode_normal(nfc(piece), out, cache);
      },
      [&](std::int32_t id) { out.push_back(id); });
}

void tokenizer::encode_normal(std::string_view text, std::vector<std::int32_t>& out,
                              word_cache& cache) const {
  in_normal_text_.split(
      text,
      [&](std::string_view piece) {
        std::string prefixed;
        if (parts_.add_prefix_space && piece.front() != ' ')
          piece = prefixed.append(" ").append(piece);
        if (parts_.split_words)
          split_words(piece, [&](std::string_view word) { encode_word(word, out, cache); });
        else
          encode_word(piece, out, cache);
      },
      [&](std::int32_t id) { out.push_back(id); });
}

void tokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& out,
                            word_cache& cache) const {
  if (auto const known = cache.find(word); !known.empty()) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  auto& ids = cache.scratch();
  ids.clear();
  if (parts_.whole_words_first) {
    if (auto const whole = id_of(byte_level::spell(word)); whole) ids.push_back(*whole);
  }
  if (ids.empty()) {
    for (char const byte : word) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
    merge_word(parts_.merges, ids);
  }
  cache.keep(word, ids);
  out.insert(out.end(), ids.begin(), ids.end());
}

}  // namespace mpt
