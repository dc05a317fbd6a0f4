// The parts of CPython's `random` and `set` on which LLM Foundry's few-shot draws depend, number
// for number.
//
// random.Random(seed) is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), as is
// std::mt19937 except for the seeding by an array; sample and choice draw by rejection from the
// leading bits. The examples of a prompt have the iteration order of a set of their row numbers,
// which is the order of CPython's hash table: open addressing, ten adjacent slots and then a jump,
// grown fourfold when three fifths are filled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace mpt::eval {

/// random.Random(seed), for a seed that is not negative.
class python_random {
 public:
  explicit python_random(std::uint64_t seed);

  /// Uniform in 0 .. `size` - 1; 0 < size < 2^32.
  [[nodiscard]] std::size_t uniform(std::size_t size);

  /// random.sample(range(size), count): `count` different numbers, in the order drawn.
  [[nodiscard]] std::vector<std::size_t> sample(std::size_t size, std::size_t count);

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

  void add(std::size_t value);

  /// Removes a number if the set contains it; a later number on the same probe path reuses its
  /// slot.
  void remove(std::size_t value);

  [[nodiscard]] bool contains(std::size_t value) { return find(value).use == state::used; }
  [[nodiscard]] std::size_t size() const { return used_; }

  /// The numbers in the order of `for number in set`.
  [[nodiscard]] std::vector<std::size_t> values() const;

 private:
  enum class state : std::uint8_t { free, used, removed };
  struct slot {
    state use = state::free;
    std::size_t value = 0;
  };

  /// The slot of the number, or the free slot where it would be inserted; `freed`: set to a slot on
  /// the way there from which a number was removed.
  [[nodiscard]] slot& find(std::size_t value, slot** freed = nullptr);

  void grow();

  std::vector<slot> table_;
  std::size_t filled_ = 0;  // used or removed
  std::size_t used_ = 0;
};

/// The rows that precede row `row` of `rows` rows as examples, in order: `shots` rows, or all
/// others where there are fewer. Advances `random`, so the function must be called for the rows in
/// order.
[[nodiscard]] std::vector<std::size_t> draw_examples(std::size_t rows, std::size_t shots,
                                                     std::size_t row, python_random& random);

}  // namespace mpt::eval
