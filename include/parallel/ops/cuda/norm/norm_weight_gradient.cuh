// Launcher of the two kernels that the weight gradients of layer_norm and rms_norm share. For nvcc.
#pragma once

#include <type_traits>

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/norm/norm_weight_gradient.hpp>
#include <parallel/ops/cuda/scratch.hpp>

namespace parallel::cuda::detail {

/// dweight and dbias are null if they are not needed; mean is null for 0.
template <class T, class A = accumulate_t<T>>
void norm_weight_gradient(stream& s, char const* operation, A* dweight, A* dbias,
                          ops::rows_view<T const> dy, ops::rows_view<T const> x, A const* mean,
                          A const* rstd) {
  auto const division = kernels::weight_gradient_division::for_rows(x);
  if (division.chunks == 0 || (dweight == nullptr && dbias == nullptr)) return;
  auto* const sums = reinterpret_cast<A*>(s.scratch(norm_weight_gradient_scratch<T>(x, true)));
  auto const chunks = static_cast<unsigned>(division.chunks);
  constexpr unsigned threads = 256;
  auto const add_chunks = [&]<bool with_weight>(std::bool_constant<with_weight>) {
    launch<threads>(s, operation, division.tiles * division.chunks,
                    kernels::weight_gradient_of_chunks<T, with_weight>{
                        sums, dy, x, mean, rstd, dbias != nullptr,
                        static_cast<unsigned>(division.tiles), chunks},
                    threads * pack_size<T> * sizeof(A));
  };
  if (dweight != nullptr)
    add_chunks(std::true_type{});
  else
    add_chunks(std::false_type{});
  auto const columns = static_cast<unsigned>(x.columns);
  launch<threads>(s, operation, (std::size_t{2} * columns + warp_size - 1) / warp_size,
                  kernels::weight_gradient_of_all<A>{dweight, dbias, sums, columns, chunks},
                  threads * sizeof(ops::sum_t<A>));
}

}  // namespace parallel::cuda::detail
