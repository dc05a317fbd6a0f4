#include <mpt/data/order/numpy_random.hpp>

#include <algorithm>
#include <bit>
#include <utility>

#include <parallel/core/error.hpp>

namespace mpt::data {

numpy_random::numpy_random(std::uint64_t seed) {
  auto const words = spread(seed);
  increment_ = (wide{words[2]} << 64 | words[3]) << 1 | 1;
  step();
  state_ += wide{words[0]} << 64 | words[1];
  step();
}

std::uint64_t numpy_random::next64() {
  step();
  auto const folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t numpy_random::next_below(std::uint32_t limit) {
  if (limit == 1) return 0;  // draws no number
  std::uint64_t product = std::uint64_t{next32()} * limit;
  std::uint32_t const rejected = (0U - limit) % limit;
  while (static_cast<std::uint32_t>(product) < rejected) product = std::uint64_t{next32()} * limit;
  return static_cast<std::uint32_t>(product >> 32);
}

std::vector<std::size_t> numpy_random::choose(std::size_t size, std::size_t count) {
  parallel::require(count <= size && size <= 10000, "cannot choose ", count, " of ", size);
  std::vector<std::size_t> chosen;
  for (std::size_t last = size - count; last < size; ++last) {
    std::size_t const drawn = next_below(static_cast<std::uint32_t>(last + 1));
    bool const is_chosen = std::find(chosen.begin(), chosen.end(), drawn) != chosen.end();
    chosen.push_back(is_chosen ? last : drawn);
  }
  return chosen;
}

void numpy_random::step() {
  state_ = state_ * (wide{2549297995355413924U} << 64 | 4865540595714422341U) + increment_;
}

std::uint32_t numpy_random::next32() {
  if (std::exchange(has_high_, !has_high_)) return high_;
  auto const word = next64();
  high_ = static_cast<std::uint32_t>(word >> 32);
  return static_cast<std::uint32_t>(word);
}

std::array<std::uint64_t, 4> numpy_random::spread(std::uint64_t seed) {
  std::uint32_t constant = 0x43b0d7e5U;
  auto const hash = [&](std::uint32_t value, std::uint32_t multiplier) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ (value >> 16);
  };
  std::array<std::uint32_t, 4> pool{static_cast<std::uint32_t>(seed),
                                    static_cast<std::uint32_t>(seed >> 32)};
  for (auto& word : pool) word = hash(word, 0x931e8875U);
  for (std::size_t source = 0; source < 4; ++source)
    for (std::size_t target = 0; target < 4; ++target)
      if (source != target) {
        auto const mixed =
            0xca01f9ddU * pool[target] - 0x4973f715U * hash(pool[source], 0x931e8875U);
        pool[target] = mixed ^ (mixed >> 16);
      }
  constant = 0x8b51f9ddU;
  std::array<std::uint64_t, 4> out{};
  for (std::size_t i = 0; i < 8; ++i)
    out[i / 2] |= std::uint64_t{hash(pool[i % 4], 0x58f38dedU)} << (32 * (i % 2));
  return out;
}

}  // namespace mpt::data
