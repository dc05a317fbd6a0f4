// A bounded cache from words to their ids, one for each encoding thread.
//
// Words follow Zipf's law: a few thousand make up most of a text, so remembering their ids saves
// nearly all merging. A slot is one cache line: a word of at most 30 bytes and at most 8 ids;
// longer ones are not cached. A word has one slot (direct mapped), and the latest word takes it:
// there are no lists and no allocations after construction, and memory is 64 bytes x slots. The
// cache also lends its owner a buffer for the current word. It never changes the result of encode.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mpt {

/// Remembers the ids of recent words. Used by one thread, with one tokenizer.
class word_cache {
 public:
  /// A cache of `slots` words, rounded up to a power of two (at least 1).
  explicit word_cache(std::size_t slots = std::size_t{1} << 15)
      : slots_(std::bit_ceil(std::max<std::size_t>(slots, 1))) {}

  /// Forgets all words unless the tokenizer with fingerprint `owner` encoded them. `tokenizer`
  /// calls this, so that a cache used with another tokenizer is slow once instead of wrong.
  void belong_to(std::uint64_t owner);

  /// The ids of a word, or an empty span if it is not cached. Valid until the next `keep`.
  [[nodiscard]] std::span<std::int32_t const> find(std::string_view word) const;

  /// Stores a word unless it is too long.
  void keep(std::string_view word, std::span<std::int32_t const> ids);

  /// Room for the ids of the word that is being merged.
  [[nodiscard]] std::vector<std::int32_t>& scratch() { return scratch_; }

 private:
  struct alignas(64) slot {
    std::uint8_t length = 0;  // 0: free, as no word is empty
    std::uint8_t count = 0;
    char text[30] = {};
    std::int32_t ids[8] = {};
  };

  [[nodiscard]] std::size_t slot_of(std::string_view word) const;

  std::vector<slot> slots_;
  std::vector<std::int32_t> scratch_;
  std::uint64_t owner_ = 0;
};

}  // namespace mpt
