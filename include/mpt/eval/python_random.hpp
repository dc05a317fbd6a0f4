// The little of CPython's `random` and `set` that LLM Foundry's few-shot draws rest on, number for
// number.
//
// random.Random(seed) is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), which
// std::mt19937 is too, but for its seeding by an array; sample and choice draw by rejection from
// the leading bits. The examples of a prompt then stand in the order in which a set of their
// numbers is walked through, which is that of CPython's hash table: open addressing, ten places in
// a row and then a jump, four times as large when three fifths are taken.
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
    std::array<std::uint32_t, words> state{19650218U};
    for (std::uint32_t i = 1; i < words; ++i)
      state[i] = 1812433253U * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    std::size_t i = 1;
    auto const advance = [&] {
      if (++i < words) return;
      state[0] = state[words - 1];
      i = 1;
    };
    for (std::size_t k = 0; k < words; ++k) {
      auto const j = k % key.size();
      state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525U)) + key[j] +
                 static_cast<std::uint32_t>(j);
      advance();
    }
    for (std::size_t k = 0; k + 1 < words; ++k) {
      state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941U)) -
                 static_cast<std::uint32_t>(i);
      advance();
    }
    state[0] = 0x80000000U;
    given given_state{state};
    engine_ = std::mt19937(given_state);
  }

  /// Uniform in 0 .. `size` - 1; 0 < size < 2^32.
  [[nodiscard]] std::size_t below(std::size_t size) {
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
    std::size_t few = 21;  // sample's own bound between its two ways
    if (count > 5)
      few += std::size_t{1} << (2 * static_cast<int>(std::ceil(
                                        std::log(static_cast<double>(count) * 3) / std::log(4.0))));
    if (size <= few) {
      std::vector<std::size_t> pool(size);
      for (std::size_t i = 0; i < size; ++i) pool[i] = i;
      for (std::size_t i = 0; i < count; ++i) {
        auto const at = below(size - i);
        out.push_back(pool[at]);
        pool[at] = pool[size - i - 1];
      }
      return out;
    }
    std::vector<bool> taken(size);
    while (out.size() < count) {
      auto const drawn = below(size);
      if (taken[drawn]) continue;
      taken[drawn] = true;
      out.push_back(drawn);
    }
    return out;
  }

 private:
  static constexpr std::size_t words = 624;

  /// Gives std::mt19937 its whole state, so that the first number comes after a full turn.
  struct given {
    using result_type = std::uint32_t;
    std::array<std::uint32_t, words> state;
    template <class Iterator>
    void generate(Iterator first, Iterator last) const {
      for (std::size_t i = 0; first != last; ++first) *first = state[i++ % words];
    }
  };

  std::mt19937 engine_;
};

/// A set of numbers below 2^61 - 1 that is walked through in CPython's order (3.9 and later).
class python_set {
 public:
  python_set() : table_(8) {}

  void add(std::size_t value) {
    slot* freed = nullptr;
    auto& found = find(value, &freed);
    if (found.use == state::used) return;
    ++used_;
    if (freed != nullptr) {
      *freed = {state::used, value};
      return;
    }
    found = {state::used, value};
    ++filled_;
    if (filled_ * 5 >= (table_.size() - 1) * 3) grow();
  }

  /// Takes a number out, if it is in; its place serves a later number that passes it.
  void remove(std::size_t value) {
    auto& found = find(value);
    if (found.use != state::used) return;
    found.use = state::removed;
    --used_;
  }

  [[nodiscard]] bool contains(std::size_t value) { return find(value).use == state::used; }
  [[nodiscard]] std::size_t size() const { return used_; }

  /// The numbers, as `for number in set` meets them.
  [[nodiscard]] std::vector<std::size_t> in_order() const {
    std::vector<std::size_t> out;
    for (auto const& place : table_)
      if (place.use == state::used) out.push_back(place.value);
    return out;
  }

 private:
  enum class state : std::uint8_t { free, used, removed };
  struct slot {
    state use = state::free;
    std::size_t value = 0;
  };

  /// Where the number is, or the free place where it would go; `freed`: a place on the way there
  /// from which one was taken.
  [[nodiscard]] slot& find(std::size_t value, slot** freed = nullptr) {
    std::size_t const mask = table_.size() - 1;
    std::size_t perturb = value;
    for (std::size_t at = value & mask;;) {
      std::size_t const last = at + 9 <= mask ? at + 9 : at;
      for (std::size_t i = at; i <= last; ++i) {
        auto& here = table_[i];
        if (here.use == state::free || (here.use == state::used && here.value == value))
          return here;
        if (freed != nullptr && here.use == state::removed) *freed = &here;
      }
      perturb >>= 5;
      at = (at * 5 + 1 + perturb) & mask;
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

/// The rows that stand as examples before row `row` of `rows`, in their order: `shots` of them, or
/// all others where there are fewer. Draws on in `random`, so rows must be asked for in order.
[[nodiscard]] inline std::vector<std::size_t> draw_examples(std::size_t rows, std::size_t shots,
                                                            std::size_t row,
                                                            python_random& random) {
  python_set chosen;
  for (auto const drawn : random.sample(rows, std::min(rows - 1, shots))) chosen.add(drawn);
  if (chosen.contains(row)) {
    chosen.remove(row);
    if (chosen.size() + 1 < rows) {
      auto other = random.below(rows);
      while (other == row || chosen.contains(other)) other = random.below(rows);
      chosen.add(other);
    }
  }
  return chosen.in_order();
}

}  // namespace mpt::icl
