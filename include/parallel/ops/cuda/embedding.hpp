// Embeddings on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16, double and
// std::uint64_t (embedding.cuh, compiled by nvcc somewhere in the program). All memory is of the
// stream's device, ids too; each returns when enqueued.
#pragma once

#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/embedding.hpp>

namespace parallel::cuda {

/// y[m,:] = table[ids[m],:]; a row of NaN (all ones in integers) for an id outside of the
/// vocabulary.
template <class T>
void embedding_impl(stream& s, matrix_view<T> y, vector_view<std::int32_t const> ids,
                    matrix_view<T const> table, ops::table_slice slice);

/// dtable[ids[m],:] += dy[m,:], the same bits every time; ids outside of the vocabulary go nowhere.
/// Scratch: 16 bytes a token and a row of accumulate_t<T> for 16 tokens, and what the sort needs.
template <class T>
void embedding_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                             matrix_view<T const> dy, vector_view<std::int32_t const> ids,
                             ops::table_slice slice);

/// y[r,:] += table[first + r % sequence,:].
template <class T>
void add_positions_impl(stream& s, matrix_view<T> y, matrix_view<T const> table, index sequence,
                        ops::position_options options);

/// dtable[first + r % sequence,:] += dy[r,:], rows in ascending order.
template <class T>
void add_positions_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                                 matrix_view<T const> dy, index sequence,
                                 ops::position_options options);

}  // namespace parallel::cuda
