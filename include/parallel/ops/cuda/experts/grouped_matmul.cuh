// The products of all experts on cuda::stream, for every element type. For nvcc. Nobody waits for
// the numbers of rows: there are as many blocks as their tiles can be at most.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/ops/cuda/kernels/experts/grouped_matmul.hpp>
#include <parallel/ops/cuda/run.cuh>

namespace parallel::cuda {

namespace detail {

[[nodiscard]] inline kernels::expert_ends ends_of_experts(matrix_view<std::int32_t const> ends,
                                                          index rows) {
  return {ends.data(), ends.extent(0), ends.extent(1), rows / ends.extent(0)};
}

/// Enqueues a body that computes tiles of kernels::matmul.
template <class Body>
void launch_tiles(stream& s, char const* operation, index tiles, Body const& body) {
  using product = typename Body::product;
  launch<product::block_threads>(s, operation,
                                 std::min<std::size_t>(static_cast<std::size_t>(tiles), 1U << 20U),
                                 body, product::shared_bytes);
}

}  // namespace detail

template <class T>
void enqueue(stream& s, ops::grouped_matmul_arguments<T> const& a) {
  if (a.c.empty()) return;
  kernels::grouped_matmul<T> const body{a.c.data(),
                                        a.a.data(),
                                        a.b.data(),
                                        detail::ends_of_experts(a.ends, a.c.extent(0)),
                                        a.c.extent(1),
                                        a.a.extent(1),
                                        a.options.transpose_b,
                                        a.options.accumulate};
  detail::launch_tiles(s, a.name, body.most_tiles(), body);
}

template <class T>
void enqueue(stream& s, ops::grouped_matmul_weight_arguments<T> const& a) {
  if (a.c.empty()) return;
  kernels::grouped_matmul_weight<T> const body{
      a.c.data(),    a.a.data(),    a.b.data(),  detail::ends_of_experts(a.ends, a.a.extent(0)),
      a.a.extent(1), a.b.extent(1), a.accumulate};
  detail::launch_tiles(s, a.name, body.tiles(), body);
}

}  // namespace parallel::cuda
