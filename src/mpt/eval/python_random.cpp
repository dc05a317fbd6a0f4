#include <mpt/eval/python_random.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <parallel/core/error.hpp>

namespace mpt::eval {

python_random::python_random(std::uint64_t seed) {
  // CPython seeds the twister by init_by_array with the 32-bit words of the seed
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

std::size_t python_random::uniform(std::size_t size) {
  parallel::require(size > 0 && size >> 32 == 0, "cannot draw a number below ", size,
                    "; expected a size from 1 to 2^32 - 1");
  auto const bits = std::bit_width(size);
  std::size_t drawn = size;
  while (drawn >= size) drawn = engine_() >> (32 - bits);
  return drawn;
}

std::vector<std::size_t> python_random::sample(std::size_t size, std::size_t count) {
  parallel::require(count <= size, "cannot draw ", count, " different numbers of ", size);
  std::vector<std::size_t> out;
  // random.sample draws from a pool up to this size, and above it by rejection
  std::size_t pool_limit = 21;
  if (count > 5)
    pool_limit +=
        std::size_t{1} << (2 * static_cast<int>(std::ceil(std::log(static_cast<double>(count) * 3) /
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

void python_set::add(std::size_t value) {
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

void python_set::remove(std::size_t value) {
  auto& entry = find(value);
  if (entry.use != state::used) return;
  entry.use = state::removed;
  --used_;
}

std::vector<std::size_t> python_set::values() const {
  std::vector<std::size_t> out;
  for (auto const& entry : table_)
    if (entry.use == state::used) out.push_back(entry.value);
  return out;
}

python_set::slot& python_set::find(std::size_t value, slot** freed) {
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

void python_set::grow() {
  std::size_t const wanted = used_ > 50'000 ? used_ * 2 : used_ * 4;
  std::size_t size = 8;
  while (size <= wanted) size *= 2;
  auto const old = std::exchange(table_, std::vector<slot>(size));
  for (auto const& entry : old)
    if (entry.use == state::used) find(entry.value) = entry;
  filled_ = used_;
}

std::vector<std::size_t> draw_examples(std::size_t rows, std::size_t shots, std::size_t row,
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

}  // namespace mpt::eval
