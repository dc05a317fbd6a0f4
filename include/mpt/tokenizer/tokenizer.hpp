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

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/tokenizer_files.hpp>
#include <mpt/tokenizer/tokenizer_json.hpp>
#include <mpt/tokenizer/word_cache.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// What decoding does with special tokens such as "<|endoftext|>".
enum class special_tokens : std::uint8_t { keep, skip };

/// A number that differs between tokenizers of different text (not proof against intent); never 0.
[[nodiscard]] std::uint64_t tokenizer_fingerprint(std::string_view json);

/// Text to ids and back.
class tokenizer {
 public:
  /// Loads a tokenizer.json, or the one in a folder, with the tokenizer_config.json beside it if
  /// there is one. Errors: not there (names like "owner/name" are not downloaded), or not
  /// supported.
  [[nodiscard]] static tokenizer load(std::filesystem::path const& file_or_folder);

  /// Makes a tokenizer of its files' texts.
  explicit tokenizer(tokenizer_files files);

  /// The ids of a text, without special tokens around it.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Appends the ids of a text to `out`. Many texts are fastest with one cache kept between calls.
  void encode(std::string_view text, std::vector<std::int32_t>& out, word_cache& cache) const;

  /// The text of ids. Bytes that form no UTF-8 become U+FFFD. Error: an id without token.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids,
                                   special_tokens special = special_tokens::keep) const;

  /// The bytes an id stands for: maybe part of a character. Error: an id without token.
  [[nodiscard]] std::string_view bytes_of(std::int32_t id) const;

  /// The id of a token, spelt as in tokenizer.json ("<|endoftext|>"; " the" is "\u0120the").
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const;

  /// The spelling of an id in tokenizer.json, if there is such a token.
  [[nodiscard]] std::optional<std::string> token_of(std::int32_t id) const;

  /// The id of the token that ends a document, as named_token finds its eos_token; nothing if none
  /// is named or the vocabulary lacks it (end_of_text.hpp says which).
  [[nodiscard]] std::optional<std::int32_t> eos_id() const { return eos_id_; }

  /// The id of a token by its role ("bos_token", "pad_token", ...), as named_token finds it.
  [[nodiscard]] std::optional<std::int32_t> id_of_role(char const* role) const;

  /// Whether an id is a special token.
  [[nodiscard]] bool is_special(std::int32_t id) const;

  /// The largest id plus one: an embedding needs at least so many rows.
  [[nodiscard]] std::int32_t size() const { return parts_.tokens.size(); }

  /// The number of tokens.
  [[nodiscard]] std::size_t count() const { return parts_.tokens.count(); }

  /// Where the tokenizer was loaded from (empty if it was made in memory), and its files' texts.
  [[nodiscard]] tokenizer_files const& files() const { return files_; }

  /// Writes the tokenizer's files into a folder (made if need be), as they were loaded; without a
  /// tokenizer_config.json one is made, ending documents with "<|endoftext|>" if there is such a
  /// token.
  void save(std::filesystem::path const& folder) const;

  /// tokenizer_fingerprint of its file.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  /// Texts are shorter than this many bytes.
  static constexpr std::size_t longest_text = std::size_t{1} << 31;

 private:
  void encode_valid(std::string_view text, std::vector<std::int32_t>& out, word_cache& cache) const;

  void encode_normal(std::string_view text, std::vector<std::int32_t>& out,
                     word_cache& cache) const;

  void encode_word(std::string_view word, std::vector<std::int32_t>& out, word_cache& cache) const;

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
