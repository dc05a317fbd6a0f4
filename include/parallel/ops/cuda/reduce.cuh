// The launchers of reductions on cuda::stream. For nvcc.
#pragma once

#include <algorithm>
#include <type_traits>

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/exact_squared_norm.hpp>
#include <parallel/ops/cuda/kernels/reduce.hpp>
#include <parallel/ops/cuda/reduce.hpp>

namespace parallel::cuda {

namespace detail {

template <class Map, class T>
void add_sum(stream& s, char const* operation, ops::sum_t<T>* out, std::span<T const> x) {
  using S = ops::sum_t<T>;
  std::size_t const pieces = kernels::pieces_of(x.size());
  if (pieces == 0) return;
  auto* const partial = reinterpret_cast<S*>(s.scratch(pieces * sizeof(S)));
  constexpr std::size_t shared = warp_size * sizeof(S);
  launch<256>(s, operation, pieces, kernels::sum_of_pieces<T, Map>{partial, x.data(), x.size()},
              shared);
  launch<1024>(s, operation, 1, kernels::add_pieces<S>{out, partial, pieces}, shared);
}

}  // namespace detail

template <class T>
void squared_norm_impl(stream& s, ops::sum_t<T>* out, std::span<T const> x) {
  detail::add_sum<kernels::squared>(s, "squared_norm", out, x);
}

template <class T>
void sum_impl(stream& s, ops::sum_t<T>* out, std::span<T const> x) {
  detail::add_sum<kernels::itself>(s, "sum", out, x);
}

template <class T>
void all_finite_impl(stream& s, int* out, std::span<T const> x) {
  if constexpr (!std::is_integral_v<T>)  // an integer is always finite
    detail::launch<256>(s, "all_finite", std::min<std::size_t>(kernels::pieces_of(x.size()), 65536),
                        kernels::all_finite<T>{out, x.data(), x.size()}, warp_size * sizeof(int));
}

template <class T>
void exact_squared_norm_impl(stream& s, exact_sum* out, std::span<T const> x) {
  constexpr unsigned threads = 128;
  constexpr std::size_t most = 396;  // as many as the shared memory of a large device holds
  std::size_t const blocks = std::min(kernels::pieces_of(x.size()), most);
  if (blocks == 0) return;
  auto* const partial = reinterpret_cast<std::int64_t*>(
      s.scratch(blocks * kernels::exact_words * sizeof(std::int64_t)));
  detail::launch<threads>(s, "exact_squared_norm", blocks,
                          kernels::exact_squares_of_blocks<T>{partial, x.data(), x.size()},
                          threads * kernels::exact_words * sizeof(std::int64_t));
  constexpr unsigned wide = 576;  // eight teams
  detail::launch<wide>(s, "exact_squared_norm", 1,
                       kernels::add_exact_squares{out, partial, static_cast<unsigned>(blocks)},
                       2 * wide * sizeof(std::int64_t));
}

}  // namespace parallel::cuda
