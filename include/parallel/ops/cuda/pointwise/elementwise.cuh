// Launchers of element-wise operations on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::fill_arguments<T> const& a) {
  detail::launch(s, "fill", detail::blocks_for(a.y.size(), pack_size<T>),
                 kernels::fill<T>{a.y.data(), a.value, a.y.size()});
}

template <class T>
void enqueue(stream& s, ops::copy_arguments<T> const& a) {
  if (a.y.empty() || a.y.data() == a.x.data()) return;
  device_scope const scope(s.device());
  check(s.run("copy",
              [&] {
                return cudaMemcpyAsync(a.y.data(), a.x.data(), a.y.size_bytes(), cudaMemcpyDefault,
                                       s.get());
              }),
        "copy");
}

template <class T>
void enqueue(stream& s, ops::copy_rows_arguments<T> const& a) {
  detail::launch(s, "copy",
                 detail::blocks_for(threads_in_rows<pack_size<T>>(a.y.rows, a.y.columns)),
                 kernels::copy_rows<T>{a.y, a.x});
}

template <class T>
void enqueue(stream& s, ops::add_arguments<T> const& a) {
  detail::launch(s, "add", detail::blocks_for(a.y.size(), pack_size<T>),
                 kernels::add<T>{a.y.data(), a.x.data(), a.y.size()});
}

template <class T>
void enqueue(stream& s, ops::multiply_arguments<T> const& a) {
  detail::launch(s, "multiply", detail::blocks_for(a.y.size(), pack_size<T>),
                 kernels::multiply<T>{a.y.data(), a.x.data(), a.y.size()});
}

template <class T>
void enqueue(stream& s, ops::scale_arguments<T> const& a) {
  detail::launch(s, "scale", detail::blocks_for(a.y.size(), pack_size<T>),
                 kernels::scale<T>{a.y.data(), a.factor, a.y.size()});
}

template <class T, class U>
void enqueue(stream& s, ops::axpby_arguments<T, U> const& a) {
  using S = ops::detail::sum_of_t<T, U>;
  detail::launch(s, "axpby", detail::blocks_for(a.y.size(), group_size<T, U>),
                 kernels::axpby<T, U>{a.y.data(), a.x.data(), static_cast<S>(a.alpha),
                                      static_cast<S>(a.beta), a.y.size()});
}

template <class T>
void enqueue(stream& s, ops::normalise_arguments<T> const& a) {
  detail::launch(s, "normalise", detail::blocks_for(a.y.size(), pack_size<T>),
                 kernels::normalise<T>{a.y.data(), a.squared_norm, a.min_norm, a.y.size()});
}

template <class To, class From>
void enqueue(stream& s, ops::cast_arguments<To, From> const& a) {
  detail::launch(s, "cast", detail::blocks_for(a.y.size(), group_size<To, From>),
                 kernels::cast<To, From>{a.y.data(), a.x.data(), a.y.size()});
}

}  // namespace parallel::cuda
