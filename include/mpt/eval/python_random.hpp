// The parts of CPython's `random` and `set` on which LLM Foundry's few-shot draws depend, number
// for number.
//
// random.Random(seed) is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), as is
// std::mt19937 except for the seeding by an array; sample and choice draw by rejection from the
// leading bits. The examples of a prompt have the iteration order of a set of their row numbers,
// which is the order of CPython's hash table: open addressing, ten adjacent slots and then a jump,
// grown fourfold when three fifths are filled.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::icl {

/// random.Random(seed), for a seed that is not negative.
class python_random {
 public:
  explicit python_random(std::uint64_t seed) {
    // init_by_array of the seed's 32-bit words
    std::vector<std::uint32_t> key{static_cast<std::uint32_t>(seed)};
    if (seed >> 32 != 0) key.push_back(static_cast<std::uint32_t>(seed >> 32));
    std::array<std::uint32_t, state_words> state{19650218U};
    for (std::uint32_t i = 1; i < state_words; ++i)
      state[i] = 1812433253U * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    std::size_t i = 1;
    auto const advance = [&] {
      if (++i < state_words) return;
      state[0] = state[state_words - 1];
      i = 1;
    };
    for (std::size_t k = 0; k < state_words; ++k) {
      auto const j = k % key.size();
      state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525U)) + key[j] +
                 static_cast<std::uint32_t>(j);
      advance();
    }
    for (std::size_t k = 0; k + 1 < state_words; ++k) {
      state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941U)) -
                 static_cast<std::uint32_t>(i);
      advance();
    }
    state[0] = 0x80000000U;
    fixed_state seed_state{state};
    engine_ = std::mt19937(seed_state);
  }

  /// Uniform in 0 .. `size` - 1; 0 < size < 2^32.
  [[nodiscard]] std::size_t uniform(std::size_t size) {
    parallel::require(size > 0 && size >> 32 == 0, "cannot draw below ", size);
    auto const bits = std::bit_width(size);
    std::size_t drawn = size;
    while (drawn >= size) drawn = engine_() >> (32 - bits);
    return drawn;
  }

  /// random.sample(range(size), count): `count` different numbers, in the order drawn.
  [[nodiscard]] std::vector<std::size_t> sample(std::size_t size, std::size_t count) {
    parallel::require(count <= size, "cannot draw ", count, " of ", size);
    std::vector<std::size_t> out;
    std::size_t pool_limit = 21;  // the bound between the two algorithms of random.sample
    if (count > 5)
      pool_limit += std::size_t{1}
                    << (2 * static_cast<int>(std::ceil(std::log(static_cast<double>(count) * 3) /
                                                       std::log(4.0))));
    if (size <= pool_limit) {
      std::vector<std::size_t> pool(size);
      for (std::size_t i = 0; i < size; ++i) pool[i] = i;
      for (std::size_t i = 0; i < count; ++i) {
        auto const position = uniform(size - i);
        out.push_back(pool[position]);
        pool[position] = pool[size - i - 1];
      }
      return out;
    }
    std::vector<bool> is_drawn(size);
    while (out.size() < count) {
      auto const drawn = uniform(size);
      if (is_drawn[drawn]) continue;
      is_drawn[drawn] = true;
      out.push_back(drawn);
    }
    return out;
  }

 private:
  static constexpr std::size_t state_words = 624;

  /// A seed sequence that sets the whole state of std::mt19937, which generates anew before the
  /// first number.
  struct fixed_state {
    using result_type = std::uint32_t;
    std::array<std::uint32_t, state_words> state;
    template <class Iterator>
    void generate(Iterator first, Iterator last) const {
      for (std::size_t i = 0; first != last; ++first) *first = state[i++ % state_words];
    }
  };

  std::mt19937 engine_;
};

/// A set of numbers below 2^61 - 1 with CPython's iteration order (3.9 and later).
class python_set {
 public:
  python_set() : table_(8) {}

  void add(std::size_t value) {
    slot* freed = nullptr;
    auto& entry = find(value, &freed);
    if (entry.use == state::used) return;
    ++used_;
    if (freed != nullptr) {
      *freed = {state::used, value};
      return;
    }
    entry = {state::used, value};
    ++filled_;
    if (filled_ * 5 >= (table_.size() - 1) * 3) grow();
  }

  /// Removes a number if the set contains it; a later number on the same probe path reuses its
  /// slot.
  void remove(std::size_t value) {
    auto& entry = find(value);
    if (entry.use != state::used) return;
    entry.use = state::removed;
    --used_;
  }

  [[nodiscard]] bool contains(std::size_t value) { return find(value).use == state::used; }
  [[nodiscard]] std::size_t size() const { return used_; }

  /// The numbers in the order of `for number in set`.
  [[nodiscard]] std::vector<std::size_t> values() const {
    std::vector<std::size_t> out;
    for (auto const& entry : table_)
      if (entry.use == state::used) out.push_back(entry.value);
    return out;
  }

 private:
  enum class state : std::uint8_t { free, used, removed };
  struct slot {
    state use = state::free;
    std::size_t value = 0;
  };

  /// The slot of the number, or the free slot where it would be inserted; `freed`: set to a slot on
  /// the way there from which a number was removed.
  [[nodiscard]] slot& find(std::size_t value, slot** freed = nullptr) {
    std::size_t const mask = table_.size() - 1;
    std::size_t perturb = value;
    for (std::size_t position = value & mask;;) {
      std::size_t const last = position + 9 <= mask ? position + 9 : position;
      for (std::size_t i = position; i <= last; ++i) {
        auto& entry = table_[i];
        if (entry.use == state::free || (entry.use == state::used && entry.value == value))
          return entry;
        if (freed != nullptr && entry.use == state::removed) *freed = &entry;
      }
      perturb >>= 5;
      position = (position * 5 + 1 + perturb) & mask;
    }
  }

  void grow() {
    std::size_t const wanted = used_ > 50'000 ? used_ * 2 : used_ * 4;
    std::size_t size = 8;
    while (size <= wanted) size *= 2;
    auto const old = std::exchange(table_, std::vector<slot>(size));
    for (auto const& entry : old)
      if (entry.use == state::used) find(entry.value) = entry;
    filled_ = used_;
  }

  std::vector<slot> table_;
  std::size_t filled_ = 0;  // used or removed
  std::size_t used_ = 0;
};

/// The rows that precede row `row` of `rows` rows as examples, in order: `shots` rows, or all
/// others where there are fewer. Advances `random`, so the function must be called for the rows in
/// order.
[[nodiscard]] inline std::vector<std::size_t> draw_examples(std::size_t rows, std::size_t shots,
                                                            std::size_t row,
                                                            python_random& random) {
  python_set chosen;
  for (auto const drawn : random.sample(rows, std::min(rows - 1, shots))) chosen.add(drawn);
  if (chosen.contains(row)) {
    chosen.remove(row);
    if (chosen.size() + 1 < rows) {
      auto replacement = random.uniform(rows);
      while (replacement == row || chosen.contains(replacement)) replacement = random.uniform(rows);
      chosen.add(replacement);
    }
  }
  return chosen.values();
}

}  // namespace mpt::icl
