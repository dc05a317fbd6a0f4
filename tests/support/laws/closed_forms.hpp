// Operations on arrays too large for a reference computation, whose results are known in closed
// form. They test indices, grids and scratch at the shapes of large models.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/dtype.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/matmul.hpp>

namespace test {

using parallel::bf16;
using parallel::index;

/// Device memory with value(i) at index i. For integer T, values must be below 2^24.
template <class T, class Device, class Value>
[[nodiscard]] parallel::buffer<T> filled(Device const& device, index count, Value const& value) {
  std::vector<T> host_values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < host_values.size(); ++i)
    host_values[i] = static_cast<T>(static_cast<float>(value(static_cast<index>(i))));
  auto out = device.template allocate<T>(host_values.size());
  device.upload(out.span(), std::span<T const>(host_values));
  return out;
}

/// The largest |x[i] - expected(i)| of device memory; NaN if any element is.
template <class T, class Device, class Expected>
[[nodiscard]] double farthest(Device const& device, std::span<T> x, Expected const& expected) {
  std::vector<T> host_values(x.size());
  device.download(std::span<T>(host_values), x);
  double worst = 0;
  for (std::size_t i = 0; i < host_values.size(); ++i) {
    double const difference = std::abs(static_cast<double>(static_cast<float>(host_values[i])) -
                                       expected(static_cast<index>(i)));
    worst = difference <= worst ? worst : difference;
  }
  return worst;
}

[[nodiscard]] inline double sign(index i) { return i % 3 == 0 ? -1.0 : 1.0; }

/// C = a b^T, where each row of a and of b repeats one sign `depth` times: every element is exactly
/// +-depth.
template <class Stream, class Device>
void check_large_product(Stream& s, Device const& device, index rows, index columns, index depth) {
  auto const a = filled<bf16>(device, rows * depth, [&](index i) { return sign(i / depth); });
  auto const b = filled<bf16>(device, columns * depth, [&](index i) { return sign(i / depth); });
  auto const c = filled<bf16>(device, rows * columns, [](index) { return NAN; });
  parallel::ops::matmul(s, parallel::matrix_view<bf16>(c.data(), {rows, columns}),
                        parallel::matrix_view<bf16 const>(a.data(), {rows, depth}),
                        parallel::matrix_view<bf16 const>(b.data(), {columns, depth}),
                        {.transpose_b = true});
  s.synchronize();
  CHECK(farthest(device, c.span(), [&](index i) {
          return sign(i / columns) * sign(i % columns) * static_cast<double>(depth);
        }) == 0);
}

/// Logits of 0, overwritten by their gradient: the loss is log(vocabulary), the gradient
/// 1/vocabulary, less one at the label. Gradients are checked in some rows, the first and the last
/// among them.
template <class Stream, class Device>
void check_large_cross_entropy(Stream& s, Device const& device, index rows, index vocabulary) {
  auto const label = [&](index row) { return (row * 7919 + vocabulary - 1) % vocabulary; };
  auto const logits =
      device.template allocate_zeroed<bf16>(static_cast<std::size_t>(rows * vocabulary));
  auto const labels = filled<std::int32_t>(device, rows, label);
  auto const losses = filled<float>(device, rows, [](index) { return NAN; });
  auto const correct = device.template allocate<std::uint8_t>(static_cast<std::size_t>(rows));
  parallel::matrix_view<bf16> const z(logits.data(), {rows, vocabulary});
  parallel::ops::cross_entropy(s, z, parallel::vector_view<float>(losses.data(), {rows}),
                               parallel::vector_view<std::uint8_t>(correct.data(), {rows}), z,
                               parallel::vector_view<std::int32_t const>(labels.data(), {rows}));
  s.synchronize();
  double const share = 1.0 / static_cast<double>(vocabulary);
  CHECK(farthest(device, losses.span(), [&](index) { return -std::log(share); }) < 1e-4);
  for (index const row : {index{0}, index{1}, rows / 2, rows - 2, rows - 1}) {
    CAPTURE(row);
    auto const begin = static_cast<std::size_t>(row * vocabulary);
    CHECK(farthest(device, logits.span().subspan(begin, static_cast<std::size_t>(vocabulary)),
                   [&](index i) {
                     auto const gradient = static_cast<float>(i == label(row) ? share - 1 : share);
                     return static_cast<double>(static_cast<float>(static_cast<bf16>(gradient)));
                   }) <= share / 128);  // one unit in the last place
  }
}

/// Queries of 0 attend equally to all earlier positions. Values alternate between +1 and -1, so the
/// mean is 0 in every second row, and 1 / number of keys in the others. Each head has its
/// own sign, so that heads cannot be confused.
template <class Stream, class Device>
void check_long_attention(Stream& s, Device const& device, index length, index heads, index dim) {
  auto const width = heads * dim;
  auto const zeros = filled<bf16>(device, length * width, [](index) { return 0.0; });
  auto const values = filled<bf16>(device, length * width, [&](index i) {
    return (i / width % 2 == 0 ? 1.0 : -1.0) * sign(i % width / dim);
  });
  auto const out = filled<bf16>(device, length * width, [](index) { return NAN; });
  auto const lse = filled<float>(device, length * heads, [](index) { return NAN; });
  auto const whole = [&](auto* data) {
    return parallel::ops::heads_view<std::remove_pointer_t<decltype(data)>>{
        data, 1, length, heads, dim, length * width, width};
  };
  bf16 const* const keys = zeros.data();
  bf16 const* const v = values.data();
  parallel::ops::attention(s, whole(out.data()),
                           parallel::tensor_view<float, 3>(lse.data(), {1, heads, length}),
                           whole(keys), whole(keys), whole(v), {.scale = 1.0});
  s.synchronize();
  CHECK(farthest(device, lse.span(),
                 [&](index i) { return std::log(static_cast<double>(i % length + 1)); }) < 1e-4);
  CHECK(farthest(device, out.span(), [&](index i) {
          index const row = i / width;
          return row % 2 == 0 ? sign(i % width / dim) / static_cast<double>(row + 1) : 0.0;
        }) < 2e-3);
}

}  // namespace test
