// exact_squared_norm as two kernels: every thread adds to the 71 digits of its own exact_sum in
// shared memory, a block adds the sums of its threads, and one block adds the sums of the blocks.
// All of these are sums of integers, so neither the number of blocks nor their order changes a bit.
//
// Cost: one pass over memory, about 30 instructions per element.
#pragma once

#include <cstddef>
#include <cstdint>

#include <parallel/core/exact_sum.hpp>
#include <parallel/ops/cuda/kernels/reduce.hpp>

namespace parallel::cuda::kernels {

/// The words of a block's result: the digits, and then the bits of `special`.
inline constexpr unsigned exact_words = exact_sum::digit_count + 1;

/// The pieces are divided among blocks of at most 2^30 elements each; partial is
/// [blocks][exact_words]. Shared memory: exact_words 64-bit integers per thread; at least 96
/// threads.
template <class T>
struct exact_squares_of_blocks {
  std::int64_t* partial;
  T const* x;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const digits = b.template shared<std::int64_t>();  // [digit][thread]: no bank conflicts
    auto* const scratch = reinterpret_cast<double*>(digits + exact_sum::digit_count * b.threads());
    for (unsigned d = 0; d < exact_sum::digit_count; ++d) digits[d * b.threads() + b.thread()] = 0;
    double special = 0;
    for (std::size_t p = b.block(); p < pieces_of(count); p += b.blocks())
      for_each_loaded_group<2>(b, piece_of(x, count, p), [&](unsigned, auto const& values) {
        unrolled<pack_size<T>>([&](unsigned i) {
          auto const value = static_cast<double>(values.value[i]);
          double const square = value * value;
          if (!(square - square == 0.0)) {
            special += square;
            return;
          }
          auto const parts = exact_sum::split(square);
          std::int64_t* const thread_digits =
              digits + parts.lowest_digit * b.threads() + b.thread();
          unrolled<3>([&](unsigned k) { thread_digits[k * b.threads()] += parts.digits[k]; });
        });
      });
    special = combine_block(b, special, scratch, plus{});  // a barrier: all digits are complete
    std::int64_t* const to = partial + std::size_t{b.block()} * exact_words;
    for (unsigned d = b.thread(); d < exact_sum::digit_count; d += b.threads()) {
      std::int64_t sum = 0;
      for (unsigned t = 0; t < b.threads(); ++t)  // each thread begins at a different bank
        sum += digits[d * b.threads() + (t + d) % b.threads()];
      to[d] = sum;
    }
    if (b.thread() == 0) to[exact_sum::digit_count] = __builtin_bit_cast(std::int64_t, special);
  }
};

/// *out += the results of `blocks` blocks: one block, of at least exact_words threads. Shared
/// memory: two 64-bit integers per thread.
struct add_exact_squares {
  exact_sum* out;
  std::int64_t const* partial;
  unsigned blocks;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const low = b.template shared<std::int64_t>();
    auto* const high = low + b.threads();
    unsigned const word = b.thread() % exact_words;
    unsigned const teams = b.threads() / exact_words;
    std::int64_t lows = 0;  // sums of halves, so that any number of blocks can be added
    std::int64_t highs = 0;
    double special = 0;
    if (b.thread() < teams * exact_words)
      for (unsigned block = b.thread() / exact_words; block < blocks; block += teams) {
        std::int64_t const bits = partial[std::size_t{block} * exact_words + word];
        if (word < exact_sum::digit_count) {
          lows += bits & 0xffffffff;
          highs += bits >> 32;
        } else {
          special += __builtin_bit_cast(double, bits);
        }
      }
    bool const digit = word < exact_sum::digit_count;
    low[b.thread()] = digit ? lows : __builtin_bit_cast(std::int64_t, special);
    high[b.thread()] = highs;
    b.sync();
    if (b.thread() < exact_sum::digit_count)
      for (unsigned team = 1; team < teams; ++team) {
        low[b.thread()] += low[team * exact_words + b.thread()];
        high[b.thread()] += high[team * exact_words + b.thread()];
      }
    b.sync();
    if (b.thread() != 0) return;
    for (unsigned d = 1; d < exact_sum::digit_count; ++d) low[d] += high[d - 1];
    double special_sum = 0;
    for (unsigned team = 0; team < teams; ++team)
      special_sum += __builtin_bit_cast(double, low[team * exact_words + exact_sum::digit_count]);
    exact_sum total = *out;
    total.add(low, special_sum);
    *out = total;
  }
};

}  // namespace parallel::cuda::kernels
