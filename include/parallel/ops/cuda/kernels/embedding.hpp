// Embeddings as kernels: rows of a table by token, and by position, and the gradients by position.
#pragma once

#include <cstdint>
#include <limits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/embedding.hpp>

namespace parallel::cuda::kernels {

/// NaN, or for types without NaN all ones.
template <class A>
inline constexpr A invalid_value = std::numeric_limits<A>::has_quiet_NaN
                                       ? std::numeric_limits<A>::quiet_NaN()
                                       : std::numeric_limits<A>::max();

/// y[m,:] = table[ids[m],:]; zeros for an id whose row another slice holds. A kernel cannot throw,
/// so an id outside of the vocabulary gives NaN (all ones in integers), which makes the loss NaN.
template <class T>
struct embedding {
  T* y;
  std::int32_t const* ids;
  T const* table;
  index tokens, columns, rows;
  ops::table_slice slice;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y, columns, columns) && groupable<N>(table);
    for_each_in_rows<N>(b, tokens, columns, aligned, [this]<unsigned n>(index m, index c) {
      std::int32_t const id = ids[m];
      index const row = slice.row_of(id, rows);
      store_group(y + m * columns + c,
                  row < 0 ? absent<n>(id) : load_group<n>(table + row * columns + c));
    });
  }

 private:
  template <unsigned n>
  [[nodiscard]] PARALLELLM_DEVICE group<T, n> absent(std::int32_t id) const {
    bool const exists = 0 <= id && id < (slice.vocabulary == 0 ? rows : slice.vocabulary);
    group<T, n> out;
    for (unsigned i = 0; i < n; ++i)
      out.value[i] = exists ? T{} : static_cast<T>(invalid_value<accumulate_t<T>>);
    return out;
  }
};

/// y[r,:] += table[r % sequence,:], where the table begins at the first position.
template <class T>
struct add_positions {
  T* y;
  T const* table;
  index rows, columns, sequence;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y, columns, columns) && groupable<N>(table);
    for_each_in_rows<N>(b, rows, columns, aligned, [this]<unsigned n>(index r, index c) {
      T* const to = y + r * columns + c;
      auto sum = load_group<n>(to);
      auto const other = load_group<n>(table + r % sequence * columns + c);
      for (unsigned i = 0; i < n; ++i)
        sum.value[i] = static_cast<T>(A(sum.value[i]) + A(other.value[i]));
      store_group(to, sum);
    });
  }
};

/// dtable[t,:] += dy[t,:] + dy[t + sequence,:] + ..., in this order, where dtable begins at the
/// first position.
template <class T>
struct add_positions_backward {
  accumulate_t<T>* dtable;
  T const* dy;
  index rows, columns, sequence;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = group_size<T, accumulate_t<T>>;
    bool const aligned = groupable_rows<N>(dtable, columns, columns) && groupable<N>(dy);
    for_each_in_rows<N, 1>(b, sequence, columns, aligned, [this]<unsigned n>(index t, index c) {
      auto sum = load_group<n>(dtable + t * columns + c);
      for (index r = t; r < rows; r += sequence) add_to(sum, load_group<n>(dy + r * columns + c));
      store_group(dtable + t * columns + c, sum);
    });
  }
};

}  // namespace parallel::cuda::kernels
