// Launchers of reductions on cuda::stream. For nvcc.
#pragma once

#include <algorithm>
#include <type_traits>

#include <parallel/ops/cuda/kernels/exact_squared_norm.hpp>
#include <parallel/ops/cuda/kernels/reduce.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/reduce.hpp>

namespace parallel::cuda {

namespace detail {

template <class Map, class T>
void add_sum(stream& s, char const* operation, ops::sum_t<T>* out, std::span<T const> x) {
  using S = ops::sum_t<T>;
  std::size_t const pieces = kernels::pieces_of(x.size());
  if (pieces == 0) return;
  auto* const partial = reinterpret_cast<S*>(s.scratch(sum_scratch<T>(x.size())));
  constexpr std::size_t shared = warp_size * sizeof(S);
  launch<256>(s, operation, pieces, kernels::sum_of_pieces<T, Map>{partial, x.data(), x.size()},
              shared);
  launch<1024>(s, operation, 1, kernels::add_pieces<S>{out, partial, pieces}, shared);
}

}  // namespace detail

template <class T>
void enqueue(stream& s, ops::squared_norm_arguments<T> const& a) {
  detail::add_sum<kernels::squared>(s, "squared_norm", a.out, a.x);
}

template <class T>
void enqueue(stream& s, ops::sum_arguments<T> const& a) {
  detail::add_sum<kernels::identity>(s, "sum", a.out, a.x);
}

template <class T>
void enqueue(stream& s, ops::all_finite_arguments<T> const& a) {
  if constexpr (!std::is_integral_v<T>)  // an integer is always finite
    detail::launch<256>(
        s, "all_finite", std::min<std::size_t>(kernels::pieces_of(a.x.size()), 65536),
        kernels::all_finite<T>{a.out, a.x.data(), a.x.size()}, warp_size * sizeof(int));
}

template <class T>
void enqueue(stream& s, ops::exact_squared_norm_arguments<T> const& a) {
  constexpr unsigned threads = 128;
  std::size_t const blocks = detail::exact_squared_norm_blocks(a.x.size());
  if (blocks == 0) return;
  auto* const partial = reinterpret_cast<std::int64_t*>(s.scratch(scratch_bytes(a)));
  detail::launch<threads>(s, "exact_squared_norm", blocks,
                          kernels::exact_squares_of_blocks<T>{partial, a.x.data(), a.x.size()},
                          threads * kernels::exact_words * sizeof(std::int64_t));
  constexpr unsigned wide = 576;  // eight teams
  detail::launch<wide>(s, "exact_squared_norm", 1,
                       kernels::add_exact_squares{a.out, partial, static_cast<unsigned>(blocks)},
                       2 * wide * sizeof(std::int64_t));
}

}  // namespace parallel::cuda
