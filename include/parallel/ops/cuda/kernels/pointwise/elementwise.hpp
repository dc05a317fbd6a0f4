// Element-wise operations as kernels. Arithmetic is in accumulate_t<T>, and the result is rounded
// once. Cost: memory bandwidth.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda::kernels {

/// y[i] = value.
template <class T>
struct fill {
  T* y;
  T value;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_element(
        b, count, [this] { return value; }, y);
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

/// y[i] += x[i].
template <class T>
struct add {
  T* y;
  T const* x;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    for_each_element(
        b, count, [](A a, A other) { return a + other; }, y, y, x);
  }
};

/// y[i] *= x[i].
template <class T>
struct multiply {
  T* y;
  T const* x;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    for_each_element(
        b, count, [](A a, A other) { return a * other; }, y, y, x);
  }
};

/// y[i] *= factor.
template <class T>
struct scale {
  T* y;
  accumulate_t<T> factor;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_element(
        b, count, [this](accumulate_t<T> a) { return a * factor; }, y, y);
  }
};

/// y[i] = alpha x[i] + beta y[i], rounded to T once.
template <class T, class U>
struct axpby {
  using sum = ops::detail::sum_of_t<T, U>;

  T* y;
  U const* x;
  sum alpha;
  sum beta;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_element(
        b, count,
        [this](accumulate_t<T> old_y, accumulate_t<U> x_value) {
          return static_cast<accumulate_t<T>>(alpha * sum(x_value) + beta * sum(old_y));
        },
        y, y, x);
  }
};

/// y[i] /= max(sqrt(*squared_norm), min_norm), where the divisor is rounded to T.
template <class T>
struct normalise {
  T* y;
  double const* squared_norm;
  double min_norm;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    auto const round = [](double x) { return static_cast<A>(static_cast<T>(static_cast<A>(x))); };
    A const norm = round(std::sqrt(*squared_norm)), bound = round(min_norm);
    A const divisor = norm < bound ? bound : norm;  // a NaN norm stays NaN
    for_each_element(
        b, count, [divisor](A a) { return a / divisor; }, y, y);
  }
};

/// y[i] = x[i] converted to the type To; double is rounded to float before it is rounded to bf16.
template <class To, class From>
struct cast {
  To* y;
  From const* x;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_element(
        b, count, [](accumulate_t<From> a) { return static_cast<accumulate_t<To>>(a); }, y, x);
  }
};

}  // namespace parallel::cuda::kernels
