// A BPE tokenizer, loaded from a tokenizer.json: byte-level (GPT-2's, GPT-NeoX's, Llama 3's,
// Qwen's kind) or SentencePiece's (Llama 2's and Mistral's).
//
// Ids equal those of transformers' AutoTokenizer for the folder (auto_tokenizer.hpp) with
// add_special_tokens=False. Encoding first finds added tokens in the raw text; each piece between
// them is normalised (if the file says so), added tokens are found in normalised text, and pieces
// between those become words and are merged. The words of byte-level BPE follow a pattern
// (split_words.hpp), and their bytes are merged; in SentencePiece's BPE a space is "▁"
// (metaspace.hpp), and the characters of a whole piece are merged. No special tokens are added
// around the text (text_affixes.hpp says which transformers adds). In text that is not UTF-8, wrong
// bytes are read as U+FFFD. A tokenizer is immutable: any number of threads may encode and decode
// with it, each with its own `word_cache`. Decoding gives bytes, with U+FFFD in place of invalid
// UTF-8. Cost: loading takes some tens of milliseconds; for encoding see word_cache and bpe.
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

/// The treatment of special tokens such as "<|endoftext|>" in decoding.
enum class special_tokens : std::uint8_t { keep, skip };

/// Text to ids and back.
class tokenizer {
 public:
  /// Loads a tokenizer.json, or the one in a folder, with the files of a tokenizer next to it.
  /// Errors: the file is missing (names like "owner/name" are not downloaded) or not supported.
  [[nodiscard]] static tokenizer load(std::filesystem::path const& file_or_folder);

  /// Makes a tokenizer from the texts of its files.
  explicit tokenizer(tokenizer_files files);

  /// The ids of a text, without special tokens around it.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Appends the ids of a text to `out`. Many texts are fastest with one cache kept between calls.
  void encode(std::string_view text, std::vector<std::int32_t>& out, word_cache& cache) const;

  /// The text of ids. Invalid UTF-8 becomes U+FFFD, and the space that SentencePiece puts in front
  /// of a text is left out. Error: an id without token.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids,
                                   special_tokens special = special_tokens::keep) const;

  /// The bytes of a token, which may be part of a character. Error: an id without token.
  [[nodiscard]] std::string_view bytes_of(std::int32_t id) const;

  /// Whether an id is a byte token of SentencePiece ("<0x0A>").
  [[nodiscard]] bool is_byte(std::int32_t id) const;

  /// How ids become text.
  [[nodiscard]] decoding_rules const& decoding() const { return parts_.tokens.decoding(); }

  /// The id of a token, spelt as in tokenizer.json ("<|endoftext|>"; " the" is "\u0120the").
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const;

  /// The spelling of an id in tokenizer.json, if there is such a token.
  [[nodiscard]] std::optional<std::string> token_of(std::int32_t id) const;

  /// The id of the token that ends a document, as named_token finds its eos_token; nullopt if no
  /// file names it or the vocabulary lacks it (why_without_end says which).
  [[nodiscard]] std::optional<std::int32_t> eos_id() const { return eos_id_; }

  /// The id of a token by its role ("bos_token", "pad_token", ...), as named_token finds it.
  [[nodiscard]] std::optional<std::int32_t> id_of_role(char const* role) const;

  [[nodiscard]] bool is_special(std::int32_t id) const;

  /// The largest id plus one, which is the minimum number of rows of an embedding.
  [[nodiscard]] std::int32_t size() const { return parts_.tokens.size(); }

  /// The number of tokens.
  [[nodiscard]] std::size_t count() const { return parts_.tokens.count(); }

  /// The texts of the tokenizer's files and their path (empty if it was made in memory).
  [[nodiscard]] tokenizer_files const& files() const { return files_; }

  /// Writes the tokenizer's files, as loaded, into a folder, which is created if it does not exist.
  /// A missing tokenizer_config.json is made, with "<|endoftext|>" as eos_token if there is such a
  /// token.
  void save(std::filesystem::path const& folder) const;

  /// The fingerprint that read_auto_tokenizer makes.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  /// Texts must be shorter than this, in bytes.
  static constexpr std::size_t longest_text = std::size_t{1} << 31;

 private:
  void encode_valid(std::string_view text, std::vector<std::int32_t>& out, word_cache& cache) const;

  void encode_normal(std::string_view text, bool begins_text, std::vector<std::int32_t>& out,
                     word_cache& cache) const;

  void encode_byte_level(std::string_view text, std::vector<std::int32_t>& out,
                         word_cache& cache) const;

  void encode_sentencepiece(std::string_view text, bool begins_text, std::vector<std::int32_t>& out,
                            word_cache& cache) const;

  void encode_word(std::string_view word, std::vector<std::int32_t>& out, word_cache& cache) const;

  /// The token of the model that is the whole word.
  [[nodiscard]] std::optional<std::int32_t> token_of_word(std::string_view word) const;

  tokenizer_files files_;
  tokenizer_parts parts_;
  added_token_matcher in_raw_text_;
  added_token_matcher in_normal_text_;
  std::vector<std::int32_t> special_ids_;
  std::vector<std::int32_t> outside_model_;  // ids of added tokens that the model lacks
  std::optional<std::int32_t> eos_id_;
  std::int32_t bytes_[256] = {};  // of byte-level BPE
  std::uint64_t fingerprint_ = 0;
};

/// The reason why `tokenizer.eos_id()` is empty, to follow "it has no end-of-text token" in a
/// message.
[[nodiscard]] std::string why_without_end(tokenizer const& tokenizer);

/// The id of the token that ends a text. Throws if there is none; `need` names the consequence
/// ("responses would never end").
std::int32_t require_end(tokenizer const& tokenizer, std::string_view need);

}  // namespace mpt
