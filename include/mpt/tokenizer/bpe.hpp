// Byte-pair encoding: the merges, and their application to one word.
//
// A merge replaces the pair of tokens (left, right) by one token; its rank is its line number. A
// word begins as the tokens of its bytes; then the pair of lowest rank (the leftmost of equal ones)
// is merged repeatedly until no pair is left. Words of a few letters are merged by scanning for the
// minimum (n^2 steps, all in cache), long words by a heap (n log n), so that text without spaces is
// not slow. Memory: 16 bytes per merge in an open-addressing table at most half full. Paper:
// Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace mpt {

/// The result of merging a pair of tokens, and its priority.
struct merge {
  std::int32_t rank;  ///< lower goes first
  std::int32_t id;    ///< the token it becomes
};

/// All merges of a tokenizer, by pair of ids.
class merge_table {
 public:
  /// A table with room for `count` merges.
  explicit merge_table(std::size_t count = 0)
      : entries_(std::bit_ceil(count * 2 + 1)), mask_(entries_.size() - 1) {}

  /// Adds a merge and returns whether the pair is new (else nothing changes). Ids are not negative;
  /// at most as many merges may be added as the table has room for.
  bool insert(std::int32_t left, std::int32_t right, merge value);

  /// The merge of a pair, or nullptr.
  [[nodiscard]] merge const* find(std::int32_t left, std::int32_t right) const;

 private:
  static constexpr std::uint64_t empty = std::numeric_limits<std::uint64_t>::max();
  struct table_entry {
    std::uint64_t key = empty;
    merge value{};
  };

  [[nodiscard]] static std::uint64_t key(std::int32_t left, std::int32_t right);
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const;

  std::vector<table_entry> entries_;
  std::size_t mask_;
};

namespace detail {

/// Merges a word of any length (less than 2^31 tokens).
void merge_by_heap(merge_table const& merges, std::vector<std::int32_t>& ids);

}  // namespace detail

/// Applies all merges to one word, in place.
void merge_word(merge_table const& merges, std::vector<std::int32_t>& ids);

}  // namespace mpt
