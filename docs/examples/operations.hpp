// What the examples of operations share: views of arrays, and a check of the results.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include <parallel/core/tensor.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/ops/attention/heads_view.hpp>

namespace example {

using parallel::index;
namespace ops = parallel::ops;

template <class T>
[[nodiscard]] parallel::vector_view<T> vector(std::vector<T>& values) {
  return {values.data(), {std::ssize(values)}};
}

template <class T>
[[nodiscard]] parallel::matrix_view<T> matrix(std::vector<T>& values, index rows) {
  return {values.data(), {rows, std::ssize(values) / rows}};
}

/// One sequence whose rows hold one head.
template <class T>
[[nodiscard]] ops::heads_view<T> heads(std::vector<T>& values, index sequence) {
  index const dim = std::ssize(values) / sequence;
  return {values.data(), 1, sequence, 1, dim, std::ssize(values), dim};
}

/// Waits for the stream. Ends the program with status 1 unless `values` are the expected ones, up
/// to a rounding error of 1e-4.
template <class T>
void expect(parallel::host::stream& s, std::vector<T> const& values,
            std::vector<double> const& expected) {
  s.synchronize();
  bool equal = values.size() == expected.size();
  for (std::size_t i = 0; equal && i < expected.size(); ++i) {
    auto const value = static_cast<double>(values[i]);
    equal = value == expected[i] || std::abs(value - expected[i]) <= 1e-4;
  }
  if (equal) return;
  std::fputs("found", stderr);
  for (T const value : values) std::fprintf(stderr, " %g", static_cast<double>(value));
  std::fputs(", expected", stderr);
  for (double const value : expected) std::fprintf(stderr, " %g", value);
  std::fputs("\n", stderr);
  std::exit(1);
}

}  // namespace example
