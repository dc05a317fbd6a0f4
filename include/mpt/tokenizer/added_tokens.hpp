// Finding added tokens ("<|endoftext|>", runs of spaces) in text, before any BPE.
//
// Tokens are matched leftmost first, of those the longest, and matches do not overlap; what lies
// between is handed on as pieces. The tokens form a trie; from every place the longest path to a
// token's end is walked. A token may swallow white space on its left or right (`lstrip`, `rstrip`);
// what that means where matches meet is copied from the reference implementation: white space taken
// on the right does not stop a token that begins inside it.
// Cost: one look-up a byte where no token begins with that byte; at worst text x longest token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace mpt {

/// Which white space beside an added token becomes part of it.
struct strip_options {
  bool left = false;
  bool right = false;
};

/// A set of added tokens to be found in text.
class added_token_matcher {
 public:
  /// Adds a token, spelt as in the text it is looked for in. Of equal spellings the first counts.
  void insert(std::string_view spelling, std::int32_t id, strip_options strip);

  /// Whether there is nothing to find.
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

  /// Calls `piece(std::string_view)` for text between tokens (never empty) and `token(id)` for
  /// every token found, in order.
  template <class Piece, class Token>
  void split(std::string_view text, Piece&& piece, Token&& token) const {
    std::size_t done = 0;
    std::size_t spaces_end = 0;
    for (std::size_t place = 0; place < text.size() && !empty();) {
      auto const found = longest_at(text, place);
      if (found.id < 0) {
        ++place;
        continue;
      }
      auto begin = place;
      auto end = place + found.bytes;
      place = end;  // the search goes on here, whatever is stripped
      if (found.strip.left) begin = white_space_before(text, begin, done);
      if (found.strip.right)  // white space that was walked once is not walked again
        end = spaces_end = end < spaces_end ? spaces_end : white_space_after(text, end);
      if (done < begin) piece(text.substr(done, begin - done));
      token(found.id);
      done = end;
    }
    if (done < text.size()) piece(text.substr(done));
  }

 private:
  static constexpr std::size_t root = 0;
  struct node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;  // few: searched in order
    std::int32_t id = -1;
    strip_options strip;
  };
  struct match {
    std::int32_t id = -1;
    std::size_t bytes = 0;
    strip_options strip;
  };

  [[nodiscard]] std::size_t child(std::size_t at, unsigned char byte) const;
  std::size_t child_or_new(std::size_t at, unsigned char byte);
  [[nodiscard]] match longest_at(std::string_view text, std::size_t place) const;
  [[nodiscard]] static std::size_t white_space_before(std::string_view text, std::size_t place,
                                                      std::size_t floor);
  [[nodiscard]] static std::size_t white_space_after(std::string_view text, std::size_t place);

  std::vector<node> nodes_ = std::vector<node>(1);
  std::array<bool, 256> first_bytes_{};
};

}  // namespace mpt
