// NumPy's random numbers, exactly, as far as a weighted set of streams needs them.
//
// numpy.random.default_rng(seed) is PCG64 seeded through SeedSequence: a 128-bit linear
// congruential generator whose halves are folded and rotated (O'Neill, "PCG: A Family of Simple
// Fast Space-Efficient Statistically Good Algorithms for Random Number Generation", 2014), after a
// hash that spreads the seed over its 256 bits of state. `choose` draws the same numbers as
// Generator.choice(size, count, replace=False) for a size of up to 10,000.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpt::data {

class numpy_random {
 public:
  explicit numpy_random(std::uint64_t seed);

  /// Uniform in 0 .. 2^64 - 1.
  [[nodiscard]] std::uint64_t next64();

  /// Uniform in 0 .. `limit` - 1, without bias (Lemire 2019); 0 < limit < 2^32.
  [[nodiscard]] std::uint32_t next_below(std::uint32_t limit);

  /// `count` different numbers in 0 .. size - 1, in no particular order (Floyd's algorithm; cost
  /// count^2). The size is at most 10,000.
  [[nodiscard]] std::vector<std::size_t> choose(std::size_t size, std::size_t count);

 private:
  __extension__ using wide = unsigned __int128;

  void step();

  /// The next half of a 64-bit number; the low half comes first.
  [[nodiscard]] std::uint32_t next32();

  /// SeedSequence(seed).generate_state(4, uint64).
  [[nodiscard]] static std::array<std::uint64_t, 4> spread(std::uint64_t seed);

  wide state_ = 0;
  wide increment_ = 0;
  std::uint32_t high_ = 0;
  bool has_high_ = false;  // high_ is the next half
};

}  // namespace mpt::data
