// Pointwise operations and copies of rows as kernels. Arithmetic is in accumulate_t<T>, and the
// result is rounded once. Cost: memory bandwidth.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda::kernels {

/// y[i] = function(x[i], ...) for the arrays x of `inputs`; y[i] comes first if the function reads
/// it.
template <class F, class T, class... X>
struct pointwise {
  T* y;
  void const* inputs[sizeof...(X) + 1];  // the last one is null
  F function;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    assign(b, std::index_sequence_for<X...>{});
  }

 private:
  template <class Block, std::size_t... Input>
  PARALLELLM_DEVICE void assign(Block& b, std::index_sequence<Input...>) const {
    auto const f = ops::detail::when_run(function);
    if constexpr (F::reads_result)
      for_each_element(b, count, f, y, y, static_cast<X const*>(inputs[Input])...);
    else
      for_each_element(b, count, f, y, static_cast<X const*>(inputs[Input])...);
  }
};

/// y[r, i] = x[r, i], for any strides.
template <class T>
struct copy_rows {
  ops::rows_view<T> y;
  ops::rows_view<T const> x;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y.data, y.columns, y.row_stride) &&
                         groupable_rows<N>(x.data, x.columns, x.row_stride);
    for_each_in_rows<N>(b, y.rows, y.columns, aligned, [this]<unsigned n>(index r, index c) {
      store_group(y.row(r) + c, load_group<n>(x.row(r) + c));
    });
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

/// The form in which a kernel computes a function, for results of type T: mostly the function.
template <class T, class F>
[[nodiscard]] F kernel_form(one_kernel, std::type_identity<T>, F const& f) {
  return f;
}

/// The launch of a pointwise operation that is computed by the form `f`.
template <class Form, class F, class T, class... X>
[[nodiscard]] auto kernel_of_form(Form const& f, ops::pointwise_arguments<F, T, X...> const& a) {
  auto const launch = [&](auto... x) {
    return grid{
        blocks_for(a.y.size(), group_size<T, X...>),
        kernels::pointwise<Form, T, X...>{a.y.data(), {x.data()..., nullptr}, f, a.y.size()}};
  };
  return std::apply(launch, a.inputs);
}

template <class F, class T, class... X>
[[nodiscard]] auto kernel_of(one_kernel tag, ops::pointwise_arguments<F, T, X...> const& a) {
  return kernel_of_form(kernel_form(tag, std::type_identity<T>{}, a.function), a);
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::copy_rows_arguments<T> const& a) {
  return grid{blocks_for(threads_in_rows<pack_size<T>>(a.y.rows, a.y.columns)),
              kernels::copy_rows<T>{a.y, a.x}};
}

}  // namespace parallel::cuda
