// Reductions to one number, as kernels: a block sums each piece of 16,384 elements, then one block
// adds the sums of all pieces. Pieces and the order of every sum depend on the number of elements
// alone, so a sum has the same bits in each run, at any alignment. Cost: memory bandwidth.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/reduce.hpp>

namespace parallel::cuda::kernels {

inline constexpr unsigned piece_elements = 16384;

[[nodiscard]] PARALLELLM_HOST_DEVICE inline std::size_t pieces_of(std::size_t count) {
  return (count + piece_elements - 1) / piece_elements;
}

/// The elements of piece number `piece` of `count` elements.
template <class T>
[[nodiscard]] PARALLELLM_DEVICE row_groups<T const> piece_of(T const* x, std::size_t count,
                                                             std::size_t piece) {
  std::size_t const begin = piece * piece_elements;
  std::size_t const left = count - begin;
  return {x + begin, left < piece_elements ? static_cast<unsigned>(left) : piece_elements};
}

struct identity {
  template <class S>
  PARALLELLM_DEVICE S operator()(S value) const {
    return value;
  }
};
struct squared {
  template <class S>
  PARALLELLM_DEVICE S operator()(S value) const {
    return value * value;
  }
};

/// partial[p] = sum of map(x[i]) over piece p in sum_t<T>: one block per piece. `map` maps 0 to 0.
/// Shared memory: 32 sum_t<T>.
template <class T, class Map>
struct sum_of_pieces {
  using S = ops::sum_t<T>;

  S* partial;
  T const* x;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    S sum = 0;
    for_each_loaded_group<4>(b, piece_of(x, count, b.block()), [&](unsigned, auto const& values) {
      unrolled<pack_size<T>>([&](unsigned i) { sum += Map{}(static_cast<S>(values.value[i])); });
    });
    sum = combine_block(b, sum, b.template shared<S>(), plus{});
    if (b.thread() == 0) partial[b.block()] = sum;
  }
};

/// *out += sum of `count` partial sums: one block. Shared memory: 32 S.
template <class S>
struct add_pieces {
  S* out;
  S const* partial;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    S sum = 0;
    for_each_in_block(b, count, [&](std::size_t p) { sum += partial[p]; });
    sum = combine_block(b, sum, b.template shared<S>(), plus{});
    if (b.thread() == 0) *out += sum;
  }
};

/// *out = 0 if any x[i] is infinite or NaN; blocks share the pieces. Shared memory: 32 ints.
template <class T>
struct all_finite {
  int* out;
  T const* x;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    int bad = 0;
    for (std::size_t p = b.block(); p < pieces_of(count); p += b.blocks())
      for_each_loaded_group<4>(b, piece_of(x, count, p), [&](unsigned, auto const& values) {
        unrolled<pack_size<T>>([&](unsigned i) {
          A const value = static_cast<A>(values.value[i]);
          bad |= value - value == A(0) ? 0 : 1;  // infinity minus itself is NaN
        });
      });
    bad = combine_block(b, bad, b.template shared<int>(), larger{});
    if (bad != 0 && b.thread() == 0) *out = 0;  // all writers write the same value
  }
};

}  // namespace parallel::cuda::kernels
