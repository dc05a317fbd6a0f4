#include <mpt/tokenizer/word_cache.hpp>

#include <cstring>

#include <parallel/core/hash.hpp>

namespace mpt {

void word_cache::belong_to(std::uint64_t owner) {
  if (owner_ == owner) return;
  std::fill(slots_.begin(), slots_.end(), slot{});
  owner_ = owner;
}

std::span<std::int32_t const> word_cache::find(std::string_view word) const {
  if (word.size() > sizeof(slot::text)) return {};
  auto const& entry = slots_[slot_of(word)];
  if (entry.length != word.size() || std::memcmp(entry.text, word.data(), word.size()) != 0)
    return {};
  return {entry.ids, entry.count};
}

void word_cache::keep(std::string_view word, std::span<std::int32_t const> ids) {
  if (word.size() > sizeof(slot::text) || ids.size() > std::size(slot{}.ids)) return;
  auto& entry = slots_[slot_of(word)];
  entry.length = static_cast<std::uint8_t>(word.size());
  entry.count = static_cast<std::uint8_t>(ids.size());
  std::memcpy(entry.text, word.data(), word.size());
  std::copy(ids.begin(), ids.end(), entry.ids);
}

std::size_t word_cache::slot_of(std::string_view word) const {
  auto const hash = parallel::fnv1a(word);  // the next line folds its high bits into the low bits
  return static_cast<std::size_t>(hash ^ (hash >> 29)) & (slots_.size() - 1);
}

}  // namespace mpt
