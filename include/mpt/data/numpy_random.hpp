// The little of NumPy's random numbers that a weighted set of streams needs, number for number.
//
// numpy.random.default_rng(seed) is PCG64 seeded through SeedSequence: a 128-bit linear
// congruential generator whose halves are folded and rotated (O'Neill, "PCG: A Family of Simple
// Fast Space-Efficient Statistically Good Algorithms for Random Number Generation", 2014), after a
// hash that spreads the seed over its 256 bits of state. `choose` draws as
// Generator.choice(size, count, replace=False) does for up to 10,000 things.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::data {

class numpy_random {
 public:
  explicit numpy_random(std::uint64_t seed);

  /// Uniform in 0 .. 2^64 - 1.
  [[nodiscard]] std::uint64_t next64();

  /// Uniform in 0 .. `below` - 1, without bias (Lemire 2019); 0 < below < 2^32.
  [[nodiscard]] std::uint32_t next_below(std::uint32_t below);

  /// `count` different numbers of 0 .. size - 1, in no particular order (Floyd's algorithm; cost
  /// count^2); size at most 10,000.
  [[nodiscard]] std::vector<std::size_t> choose(std::size_t size, std::size_t count);

 private:
  __extension__ using wide = unsigned __int128;

  void step();

  /// Halves of one 64-bit number, the low one first.
  [[nodiscard]] std::uint32_t next32();

  /// SeedSequence(seed).generate_state(4, uint64).
  [[nodiscard]] static std::array<std::uint64_t, 4> spread(std::uint64_t seed);

  wide state_ = 0;
  wide increment_ = 0;
  std::uint32_t high_ = 0;
  bool half_ = false;  // high_ is yet to be given out
};

}  // namespace mpt::data
