// A bounded cache from words to their ids, one for each encoding thread.
//
// Words follow Zipf's law: a few thousand make up most of a text, so remembering their ids saves
// nearly all merging. A slot is one cache line: a word of at most 30 bytes and at most 8 ids;
// longer ones are not kept. A word has one slot (direct mapped), and the latest word takes it: no
// lists, no eviction, no allocation after construction, memory = 64 bytes x slots. The cache also
// lends its owner a buffer for the word at hand. It never changes what encode returns.
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

  /// Forgets every word unless they were encoded by the tokenizer known by `owner`; `tokenizer`
  /// calls this, so that a cache used with a second tokenizer is slow for once instead of wrong.
  void belong_to(std::uint64_t owner);

  /// The ids of a word, or an empty span if it is not here. Valid until the next `keep`.
  [[nodiscard]] std::span<std::int32_t const> find(std::string_view word) const;

  /// Remembers a word, unless it is too long.
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

  [[nodiscard]] std::size_t place(std::string_view word) const;

  std::vector<slot> slots_;
  std::vector<std::int32_t> scratch_;
  std::uint64_t owner_ = 0;
};

}  // namespace mpt
