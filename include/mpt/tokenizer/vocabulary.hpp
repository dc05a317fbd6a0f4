// The tokens of a vocabulary: spelling to id, and id to spelling and bytes.
//
// Spellings are those of the tokenizer's file (byte-level or SentencePiece's for tokens of the
// model, plain text for added ones). Ids may have gaps; they are bounded because the tables are
// arrays over ids and the file is not trusted.
// Memory: each token's spelling twice and its bytes once.
//
// How tokens become text: tokenizer.json's `decoder`.
//
// A byte-level token spells bytes (byte_level.hpp). A token of SentencePiece is text with "▁" for
// spaces, or one byte ("<0x0A>"). Bytes that follow each other make characters together; if they
// are not UTF-8, each of them becomes U+FFFD, as in the reference implementation. The space that
// encoding has put in front of a text is removed. An added token becomes its own text, as in
// Hugging Face's tokenizers until 0.22; since 0.23 one that is matched in normalised text becomes
// its normalised text, which may be no longer what skipping special tokens looks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mpt {

/// The steps of a tokenizer's decoder.
struct decoding_rules {
  bool byte_level = true;           ///< tokens spell bytes; the rest holds for other tokens
  bool mark_is_space = false;       ///< "▁" is a space (Replace)
  bool has_byte_tokens = false;     ///< "<0x0A>" is one byte (ByteFallback)
  std::size_t stripped_spaces = 0;  ///< at most so many spaces are removed from the front (Strip)

  /// The bytes of a token, spelt as in tokenizer.json.
  [[nodiscard]] std::string bytes_of(std::string_view token) const;

  /// Whether a token is one byte, which may be part of a character.
  [[nodiscard]] bool is_byte(std::string_view token) const;
};

/// The text of bytes that tokens stand for one by one.
[[nodiscard]] std::string text_of_byte_tokens(std::string_view bytes);

/// Tokens and their ids.
class vocabulary {
 public:
  /// An empty vocabulary whose tokens become text by `decoding`.
  explicit vocabulary(decoding_rules decoding = {}) : decoding_(decoding) {}

  /// The exclusive upper limit of ids.
  static constexpr std::int32_t id_limit = 1 << 21;

  /// The result of `insert`.
  enum class outcome : std::uint8_t { added, spelling_known, id_taken };

  /// Adds a token unless its spelling or its id, which is in [0, id_limit), is already in use.
  outcome insert(std::string_view spelling, std::int32_t id);

  /// The id of a token, if the vocabulary contains it.
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view spelling) const;

  /// Whether the id belongs to a token.
  [[nodiscard]] bool contains(std::int32_t id) const;

  /// The spelling of a token the vocabulary contains.
  [[nodiscard]] std::string_view spelling(std::int32_t id) const;

  /// The bytes of a token the vocabulary contains.
  [[nodiscard]] std::string_view bytes(std::int32_t id) const;

  /// Whether a token the vocabulary contains is one byte, which may be part of a character.
  [[nodiscard]] bool is_byte(std::int32_t id) const;

  /// How tokens become text.
  [[nodiscard]] decoding_rules const& decoding() const { return decoding_; }

  /// The largest id plus one.
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }

  /// The number of tokens, which is less than `size()` where ids have gaps.
  [[nodiscard]] std::size_t count() const { return ids_.size(); }

 private:
  struct token {
    std::string spelling;
    std::string bytes;
    bool is_used = false;
    bool is_byte = false;
  };
  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };

  decoding_rules decoding_;
  std::vector<token> tokens_;
  std::unordered_map<std::string, std::int32_t, hash, std::equal_to<>> ids_;
};

}  // namespace mpt
