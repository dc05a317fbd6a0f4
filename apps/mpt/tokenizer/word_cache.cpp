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
  auto const& here = slots_[place(word)];
  if (here.length != word.size() || std::memcmp(here.text, word.data(), word.size()) != 0)
    return {};
  return {here.ids, here.count};
}

void word_cache::keep(std::string_view word, std::span<std::int32_t const> ids) {
  if (word.size() > sizeof(slot::text) || ids.size() > std::size(slot{}.ids)) return;
  auto& here = slots_[place(word)];
  here.length = static_cast<std::uint8_t>(word.size());
  here.count = static_cast<std::uint8_t>(ids.size());
  std::memcpy(here.text, word.data(), word.size());
  std::copy(ids.begin(), ids.end(), here.ids);
}

std::size_t word_cache::place(std::string_view word) const {
  auto const hash = parallel::fnv1a(word);  // its high bits are folded into the low ones
  return static_cast<std::size_t>(hash ^ (hash >> 29)) & (slots_.size() - 1);
}

}  // namespace mpt
