// Finding added tokens ("<|endoftext|>", runs of spaces) in text, before any BPE.
//
// The leftmost match comes first, of several the longest, and matches do not overlap; the text
// between matches is passed on as pieces. The tokens form a trie; at every position the longest
// path to the end of a token is followed. A token may include white space on its left or right
// (`lstrip`, `rstrip`). Adjacent matches are treated as in the reference implementation: white
// space taken on the right does not prevent a match that begins inside it. Cost: one look-up per
// byte with which no token begins; at worst text size x longest token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace mpt {

/// How an added token matches next to other characters.
struct match_rules {
  bool strip_left = false;   ///< white space before it becomes part of it
  bool strip_right = false;  ///< white space after it becomes part of it
  bool whole_word = false;   ///< it does not match next to a character of a word
};

/// A set of added tokens to be found in text.
class added_token_matcher {
 public:
  /// Adds a token, spelt as in the text to search. Of equal spellings the first counts.
  void insert(std::string_view spelling, std::int32_t id, match_rules rules);

  /// Whether the set has no tokens.
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

  /// Calls `piece(std::string_view)` for text between tokens (never empty) and `token(id)` for
  /// every token found, in order.
  template <class Piece, class Token>
  void split(std::string_view text, Piece&& piece, Token&& token) const {
    std::size_t emitted_end = 0;
    std::size_t spaces_end = 0;
    for (std::size_t position = 0; position < text.size() && !empty();) {
      auto const found = longest_at(text, position);
      if (found.id < 0) {
        ++position;
        continue;
      }
      auto begin = position;
      auto end = position + found.bytes;
      position = end;  // the search continues here, even if white space is stripped
      if (found.rules.whole_word && is_inside_word(text, begin, end)) continue;
      if (found.rules.strip_left) begin = white_space_before(text, begin, emitted_end);
      if (found.rules.strip_right)  // white space that was scanned once is not scanned again
        end = spaces_end = end < spaces_end ? spaces_end : white_space_after(text, end);
      if (emitted_end < begin) piece(text.substr(emitted_end, begin - emitted_end));
      token(found.id);
      emitted_end = end;
    }
    if (emitted_end < text.size()) piece(text.substr(emitted_end));
  }

 private:
  static constexpr std::size_t root = 0;
  struct node {
    std::vector<std::pair<unsigned char, std::uint32_t>>
        children;  // few, therefore searched in order
    std::int32_t id = -1;
    match_rules rules;
  };
  struct match {
    std::int32_t id = -1;
    std::size_t bytes = 0;
    match_rules rules;
  };

  [[nodiscard]] std::size_t child(std::size_t parent, unsigned char byte) const;
  std::size_t child_or_new(std::size_t parent, unsigned char byte);
  [[nodiscard]] match longest_at(std::string_view text, std::size_t position) const;
  [[nodiscard]] static bool is_inside_word(std::string_view text, std::size_t begin,
                                           std::size_t end);
  [[nodiscard]] static std::size_t white_space_before(std::string_view text, std::size_t position,
                                                      std::size_t floor);
  [[nodiscard]] static std::size_t white_space_after(std::string_view text, std::size_t position);

  std::vector<node> nodes_ = std::vector<node>(1);
  std::array<bool, 256> first_bytes_{};
};

}  // namespace mpt
