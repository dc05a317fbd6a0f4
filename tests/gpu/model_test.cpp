// MPT on a GPU compared with the host: loss, evaluation, squared norm and every gradient, on a
// single rank and in layouts whose ranks share the GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/ops/cuda.hpp>

#include "support/devices/gpu.hpp"
#include "support/model_form.hpp"
#include "support/model_run.hpp"

namespace gpu_model_test {

using parallel::bf16;
using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

mpt::model_config config(bool with_alibi) {
  mpt::model_config m;
  m.d_model = 32;
  m.n_heads = 4;
  m.n_layers = 4;
  m.vocab_size = 18;
  m.max_seq_len = 16;
  m.expansion_ratio = 4;
  return test::model_form(m, with_alibi);
}

/// Differences are bounded by `share` of the model's largest gradient.
template <class T>
void check(mpt::model_config const& m, model_layout const& layout, double share) {
  auto const expected = test::run_model<double>(m, {.microbatch = layout.microbatch});
  auto const got = test::run_model<T>(m, layout, [] { return parallel::cuda::device(); });
  CHECK(got.tokens == expected.tokens);
  CHECK(std::abs(got.loss - expected.loss) <= share * expected.loss);
  CHECK(std::abs(got.evaluated - expected.evaluated) <= share * expected.evaluated);
  CHECK(std::abs(got.squared_norm - expected.squared_norm) <= 4 * share * expected.squared_norm);
  double greatest = 0;
  for (auto const& [name, values] : expected.gradients)
    for (double const value : values) greatest = std::max(greatest, std::abs(value));
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (auto const& entry : expected.gradients) {
    auto const& [name, values] = entry;
    double worst = 0;
    auto const& gpu_values = got.gradients.at(name);
    REQUIRE(gpu_values.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const difference = std::abs(gpu_values[i] - values[i]);
      worst = difference <= worst ? worst : difference;  // keeps NaN
    }
    CHECK_MESSAGE(worst <= share * greatest, entry.first);
  }
}

TEST_CASE("MPT on a GPU: fp32 equals the host's fp64 up to rounding, in both forms") {
  if (!test::has_gpu()) return;
  check<float>(config(false), {}, 1e-5);
  check<float>(config(true), {}, 1e-5);
}

TEST_CASE("MPT on a GPU: bf16 is as close to fp64 as eight bits allow, in both forms") {
  if (!test::has_gpu()) return;
  check<bf16>(config(false), {}, 0.08);
  check<bf16>(config(true), {}, 0.08);
}

TEST_CASE_TEMPLATE("MPT on a GPU: 2 to 8 ranks that share a GPU equal the host's fp64", T, float,
                   bf16) {
  if (!test::has_gpu()) return;
  double const share = sizeof(T) == 2 ? 0.08 : 1e-5;
  parallel::train::pipeline_options const zero_bubble{.schedule = "zb-v", .stages_per_rank = 2};
  for (model_layout const& layout :
       {model_layout{.replicate = 2},
        {.level = optimizer, .shard = 3, .microbatch = 1},
        {.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1},
        {.context = 2},
        {.context = 2, .method = context_method::ulysses},
        {.tensor = 2},
        {.pipeline = 2, .microbatch = 1},
        {.pipeline = 2, .schedule = zero_bubble, .microbatch = 1},
        {.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1},
        {.tensor = 2, .pipeline = 2, .level = gradients, .shard = 2, .microbatch = 1}})
    check<T>(config(true), layout, share);
}

}  // namespace gpu_model_test
