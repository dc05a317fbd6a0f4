// The launchers of element-wise operations on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/elementwise.hpp>
#include <parallel/ops/cuda/kernels/elementwise.hpp>

namespace parallel::cuda {

template <class T>
void fill_impl(stream& s, std::span<T> y, T value) {
  detail::launch(s, "fill", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::fill<T>{y.data(), value, y.size()});
}

template <class T>
void copy_impl(stream& s, std::span<T> y, std::span<T const> x) {
  if (y.empty() || y.data() == x.data()) return;
  device_scope const scope(s.device());
  check(s.run("copy",
              [&] {
                return cudaMemcpyAsync(y.data(), x.data(), y.size_bytes(), cudaMemcpyDefault,
                                       s.get());
              }),
        "copy");
}

template <class T>
void copy_impl(stream& s, ops::rows_view<T> y, ops::rows_view<T const> x) {
  detail::launch(s, "copy", detail::blocks_for(threads_in_rows<pack_size<T>>(y.rows, y.columns)),
                 kernels::copy_rows<T>{y, x});
}

template <class T>
void add_impl(stream& s, std::span<T> y, std::span<T const> x) {
  detail::launch(s, "add", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::add<T>{y.data(), x.data(), y.size()});
}

template <class T>
void multiply_impl(stream& s, std::span<T> y, std::span<T const> x) {
  detail::launch(s, "multiply", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::multiply<T>{y.data(), x.data(), y.size()});
}

template <class T>
void scale_impl(stream& s, std::span<T> y, accumulate_t<T> factor) {
  detail::launch(s, "scale", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::scale<T>{y.data(), factor, y.size()});
}

template <class T, class U>
void axpby_impl(stream& s, std::span<T> y, std::span<U const> x, double alpha, double beta) {
  using S = ops::detail::sum_of_t<T, U>;
  detail::launch(s, "axpby", detail::blocks_for(y.size(), group_size<T, U>),
                 kernels::axpby<T, U>{y.data(), x.data(), static_cast<S>(alpha),
                                      static_cast<S>(beta), y.size()});
}

template <class T>
void normalise_impl(stream& s, std::span<T> y, double const* squared_norm, double least) {
  detail::launch(s, "normalise", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::normalise<T>{y.data(), squared_norm, least, y.size()});
}

template <class To, class From>
void cast_impl(stream& s, std::span<To> y, std::span<From const> x) {
  detail::launch(s, "cast", detail::blocks_for(y.size(), group_size<To, From>),
                 kernels::cast<To, From>{y.data(), x.data(), y.size()});
}

}  // namespace parallel::cuda
