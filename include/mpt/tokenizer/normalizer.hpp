// What happens to a text before words are looked for in it: tokenizer.json's `normalizer`.
#pragma once

#include <string>
#include <string_view>

namespace mpt {

/// The steps that are supported, in the order in which they run. (They do not disturb each other,
/// so that their order in the file does not matter.)
struct text_normalizer {
  bool nfc = false;             ///< to Unicode's normal form C
  bool prepend_mark = false;    ///< one "▁" in front of text that is not empty
  bool replace_spaces = false;  ///< every space becomes "▁"

  /// Whether `apply` may return another text. False is certain.
  [[nodiscard]] bool may_change(std::string_view text) const;

  /// The normalised text. `text` must be valid UTF-8.
  [[nodiscard]] std::string apply(std::string_view text) const;
};

}  // namespace mpt
