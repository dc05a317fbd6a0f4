// Finding added tokens ("<|endoftext|>", runs of spaces) in text, before any BPE.
//
// Text is searched from left to right; at each position the longest token that begins there
// matches, and matches do not overlap. The text between matches is passed on as pieces. The tokens
// form a trie of bytes. A token may include the white space on its left or right (`lstrip` and
// `rstrip` of tokenizer.json). Adjacent matches are treated as in Hugging Face's tokenizers: white
// space that a token has taken on its right does not prevent a match that begins inside it. Cost:
// one look-up per byte with which no token begins; at worst the size of the text times that of the
// longest token.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace mpt {

/// How an added token matches next to other characters.
struct match_rules {
  bool strip_left = false;   ///< the white space before the token becomes part of it
  bool strip_right = false;  ///< the white space after the token becomes part of it
  bool whole_word = false;   ///< the token does not match next to a character of a word
};

/// A set of added tokens to be found in text.
class added_token_matcher {
 public:
  /// Adds a token, spelt as in the text to search. A spelling that the set has already, or that is
  /// empty, changes nothing.
  void insert(std::string_view spelling, std::int32_t id, match_rules rules);

  /// Whether the set has no tokens.
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

  /// Calls `piece(std::string_view)` for text between tokens (never empty) and `token(id)` for
  /// every token found, in order.
  template <class Piece, class Token>
  void split(std::string_view text, Piece&& piece, Token&& token) const {
    std::size_t emitted_end = 0;  // of the text that the callbacks have got
    std::size_t spaces_end = 0;   // of the white space that was stripped last on the right
    for (std::size_t position = 0; position < text.size() && !empty();) {
      auto const found = longest_at(text, position);
      if (found.id < 0) {
        ++position;
        continue;
      }
      auto begin = position;
      auto end = position + found.bytes;
      position = end;  // the search continues here, even if more white space is stripped
      if (found.rules.whole_word && is_inside_word(text, begin, end)) continue;
      if (found.rules.strip_left)
        begin = std::max(white_space_before(text, begin, emitted_end), emitted_end);
      if (found.rules.strip_right)  // white space that was scanned before is not scanned again
        end = spaces_end = end < spaces_end ? spaces_end : white_space_after(text, end);
      if (emitted_end < begin) piece(text.substr(emitted_end, begin - emitted_end));
      if (begin < end) token(found.id);  // else other tokens have taken it with their white space
      emitted_end = end;
    }
    if (emitted_end < text.size()) piece(text.substr(emitted_end));
  }

 private:
  static constexpr std::size_t root = 0;
  struct node {
    /// Bytes and the nodes to which they lead; few, therefore searched in order.
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
    std::int32_t id = -1;  // of the token that ends here; -1: none
    match_rules rules;
  };
  struct match {
    std::int32_t id = -1;  // -1: no token matches
    std::size_t bytes = 0;
    match_rules rules;
  };

  /// The child of a node for this byte; `root` if there is none.
  [[nodiscard]] std::size_t child(std::size_t parent, unsigned char byte) const;
  std::size_t child_or_new(std::size_t parent, unsigned char byte);
  /// The longest token that begins at `position`.
  [[nodiscard]] match longest_at(std::string_view text, std::size_t position) const;
  /// Whether a character of a word precedes `begin` or follows `end`.
  [[nodiscard]] static bool is_inside_word(std::string_view text, std::size_t begin,
                                           std::size_t end);
  /// The beginning of the white space that ends at `position`, at least `first`.
  [[nodiscard]] static std::size_t white_space_before(std::string_view text, std::size_t position,
                                                      std::size_t first);
  /// The end of the white space that begins at `position`.
  [[nodiscard]] static std::size_t white_space_after(std::string_view text, std::size_t position);

  std::vector<node> nodes_ = std::vector<node>(1);  // the root first
  std::array<bool, 256> first_bytes_{};             // by byte: whether a token begins with it
};

}  // namespace mpt
