// Trains a small MPT on fake GPUs and checks it: the numbers equal the host's in fp64 up to
// rounding, and the bits do not depend on the streams' pace.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "fake_cuda/ranks.hpp"
#include "support/model_form.hpp"
#include "support/model_run.hpp"

namespace fake_cuda {

inline mpt::model_config small_model(bool with_alibi) {
  mpt::model_config m;
  m.d_model = 16;
  m.n_heads = 2;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = 8;
  m.expansion_ratio = 2;
  return test::model_form(m, with_alibi);
}

/// Options of a pipeline that computes weight gradients on a separate stream.
inline parallel::train::pipeline_options overlapped(char const* schedule) {
  return {.schedule = schedule, .overlap_weight_gradients = true};
}

/// Trains twice, each time after begin(seed), which restarts the machine. On the first `gpus` GPUs
/// the operations' scratch must equal the planned scratch to the byte.
template <class Begin, class Launch>
void check_trained_model(mpt::model_config const& m, test::model_layout layout, bool graphs,
                         Begin const& begin, Launch const& launch, int gpus = 0) {
  layout.steps = graphs ? 3 : 2;  // the third step runs the second step's graphs
  auto const expected = test::run_model<double>(m, layout);
  double largest_gradient = 0;
  for (auto const& [name, values] : expected.gradients)
    for (double const value : values)
      largest_gradient = std::max(largest_gradient, std::abs(value));
  test::model_outcome first;
  for (std::uint64_t const seed : {1, 2}) {
    CAPTURE(seed);
    begin(seed);
    auto const got = test::run_model<float>(
        m, layout, [&] { return current_gpu({.graphs = graphs}); }, launch);
    CHECK(history().failures.empty());
    CHECK((history().graph_launches > 0) == graphs);
    if (gpus > 0) CHECK(peak_scratch(gpus) == got.scratch);
    if (seed == 1) {
      first = got;
      continue;
    }
    CHECK(got.loss == first.loss);
    CHECK(got.evaluated == first.evaluated);
    CHECK(got.squared_norm == first.squared_norm);
    CHECK(got.gradients == first.gradients);
    CHECK(got.parameters == first.parameters);
  }
  constexpr double tolerance = 1e-5;
  CHECK(first.tokens == expected.tokens);
  CHECK(std::abs(first.loss - expected.loss) <= tolerance * expected.loss);
  CHECK(std::abs(first.evaluated - expected.evaluated) <= tolerance * expected.evaluated);
  REQUIRE(first.gradients.size() == expected.gradients.size());
  for (auto const& entry : expected.gradients) {
    auto const& [name, values] = entry;
    auto const& gpu_values = first.gradients.at(name);
    REQUIRE(gpu_values.size() == values.size());
    double largest_difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const difference = std::abs(gpu_values[i] - values[i]);
      largest_difference =
          difference <= largest_difference ? largest_difference : difference;  // keeps NaN
    }
    CHECK_MESSAGE(largest_difference <= tolerance * largest_gradient, entry.first);
  }
}

}  // namespace fake_cuda
