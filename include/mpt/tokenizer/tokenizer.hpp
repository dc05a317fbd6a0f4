// A byte-level BPE tokenizer (GPT-2's and GPT-NeoX's kind), loaded from a tokenizer.json.
//
// Ids are equal, one for one, to those of Hugging Face's tokenizers with add_special_tokens=False:
// added tokens that are found in the raw text; between them, per piece: NFC (if the file says so),
// added tokens that are found in normalised text, a prefix space (if asked), GPT-2's words, merges.
// Nothing is put around the text. Text that is not UTF-8 is read with U+FFFD in place of wrong
// bytes. A tokenizer does not change after it is made: any number of threads may encode and decode
// with one, each with its own `word_cache`. Decoding gives bytes; U+FFFD stands for what is no
// UTF-8. Cost: load some tens of milliseconds; encode see docs of word_cache and bpe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <mpt/tokenizer/nfc.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>
#include <mpt/tokenizer/tokenizer_json.hpp>
#include <mpt/tokenizer/word_cache.hpp>
#include <optional>
#include <parallel/core/error.hpp>
#include <parallel/core/hash.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

/// What decoding does with special tokens such as "<|endoftext|>".
enum class special_tokens : std::uint8_t { keep, skip };

/// A number that differs between tokenizers of different text (not proof against intent); never 0.
[[nodiscard]] inline std::uint64_t tokenizer_fingerprint(std::string_view json) {
  return parallel::fnv1a(json) | 1;
}

/// Text to ids and back.
class tokenizer {
 public:
  /// Loads a tokenizer.json, or the one in a folder, with the tokenizer_config.json beside it if
  /// there is one. Errors: not there (names like "owner/name" are not downloaded), or not
  /// supported.
  [[nodiscard]] static tokenizer load(std::filesystem::path const& file_or_folder) {
    return tokenizer(read_tokenizer_files(file_or_folder));
  }

  /// Makes a tokenizer of its files' texts.
  explicit tokenizer(tokenizer_files files)
      : files_(std::move(files)), parts_(read_tokenizer_json(files_.json, files_.name())) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      auto const spelling = byte_level::spell(static_cast<unsigned char>(byte));
      bytes_[byte] = id_of(spelling).value_or(-1);  // -1 only for bytes that UTF-8 never has
    }
    // Where two tokens have one normalised spelling, special ones count first, as in the reference.
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

  /// The ids of a text, without special tokens around it.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    word_cache cache(std::clamp<std::size_t>(text.size() / 8, 1, std::size_t{1} << 14));
    std::vector<std::int32_t> ids;
    encode(text, ids, cache);
    return ids;
  }

  /// Appends the ids of a text to `out`. Many texts are fastest with one cache kept between calls.
  void encode(std::string_view text, std::vector<std::int32_t>& out, word_cache& cache) const {
    parallel::require(text.size() < longest_text, "a text of ", text.size(),
                      " bytes cannot be encoded at once; split it below ", longest_text, " bytes");
    cache.belong_to(fingerprint_);
    if (utf8::is_valid(text)) {
      encode_valid(text, out, cache);
    } else {
      encode_valid(utf8::lossy(text), out, cache);
    }
  }

  /// The text of ids. Bytes that form no UTF-8 become U+FFFD. Error: an id without token.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids,
                                   special_tokens special = special_tokens::keep) const {
    std::string bytes;
    for (auto const id : ids)
      if (special == special_tokens::keep || !is_special(id)) bytes += bytes_of(id);
    return utf8::is_valid(bytes) ? bytes : utf8::lossy(bytes);
  }

  /// The bytes an id stands for: maybe part of a character. Error: an id without token.
  [[nodiscard]] std::string_view bytes_of(std::int32_t id) const {
    parallel::require(parts_.tokens.contains(id), files_.name(), ": there is no token with id ", id,
                      "; ids are below ", size());
    return parts_.tokens.bytes(id);
  }

  /// The id of a token, spelt as in tokenizer.json ("<|endoftext|>"; " the" is "\u0120the").
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const {
    return parts_.tokens.id_of(token);
  }

  /// The spelling of an id in tokenizer.json, if there is such a token.
  [[nodiscard]] std::optional<std::string> token_of(std::int32_t id) const {
    if (!parts_.tokens.contains(id)) return std::nullopt;
    return std::string(parts_.tokens.spelling(id));
  }

  /// The id of the token that ends a document, as named_token finds its eos_token; nothing if none
  /// is named or the vocabulary lacks it (end_of_text.hpp says which).
  [[nodiscard]] std::optional<std::int32_t> eos_id() const { return eos_id_; }

  /// The id of a token by its role ("bos_token", "pad_token", ...), as named_token finds it.
  [[nodiscard]] std::optional<std::int32_t> id_of_role(char const* role) const {
    auto const token = named_token(files_, role);
    return token ? id_of(*token) : std::nullopt;
  }

  /// Whether an id is a special token.
  [[nodiscard]] bool is_special(std::int32_t id) const {
    return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
  }

  /// The largest id plus one: an embedding needs at least so many rows.
  [[nodiscard]] std::int32_t size() const { return parts_.tokens.size(); }

  /// The number of tokens.
  [[nodiscard]] std::size_t count() const { return parts_.tokens.count(); }

  /// Where the tokenizer was loaded from (empty if it was made in memory), and its files' texts.
  [[nodiscard]] tokenizer_files const& files() const { return files_; }

  /// Writes the tokenizer's files into a folder (made if need be), as they were loaded; without a
  /// tokenizer_config.json one is made, ending documents with "<|endoftext|>" if there is such a
  /// token.
  void save(std::filesystem::path const& folder) const {
    auto copy = files_;
    if (copy.config.empty())
      copy.config = make_tokenizer_config(id_of("<|endoftext|>") ? "<|endoftext|>" : "", 0);
    write_tokenizer_files(copy, folder);
  }

  /// tokenizer_fingerprint of its file.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  /// Texts are shorter than this many bytes.
  static constexpr std::size_t longest_text = std::size_t{1} << 31;

 private:
  void encode_valid(std::string_view text, std::vector<std::int32_t>& out,
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

  void encode_normal(std::string_view text, std::vector<std::int32_t>& out,
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

  void encode_word(std::string_view word, std::vector<std::int32_t>& out, word_cache& cache) const {
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

  tokenizer_files files_;
  tokenizer_parts parts_;
  added_token_matcher in_raw_text_;
  added_token_matcher in_normal_text_;
  std::vector<std::int32_t> special_ids_;
  std::optional<std::int32_t> eos_id_;
  std::int32_t bytes_[256] = {};
  std::uint64_t fingerprint_ = 0;
};

}  // namespace mpt
