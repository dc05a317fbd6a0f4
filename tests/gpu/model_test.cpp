// MPT on a GPU against the host: loss, evaluation, squared norm and every gradient, alone and in
// layouts whose ranks share the GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/ops/cuda.hpp>

#include "support/gpu.hpp"
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
void check(mpt::model_config const& m, model_layout const& how, double share) {
  auto const expected = test::run_model<double>(m, {.microbatch = how.microbatch});
  auto const got = test::run_model<T>(m, how, [] { return parallel::cuda::device(); });
  CHECK(got.tokens == expected.tokens);
  CHECK(std::abs(got.loss - expected.loss) <= share * expected.loss);
  CHECK(std::abs(got.evaluated - expected.evaluated) <= share * expected.evaluated);
  CHECK(std::abs(got.squared_norm - expected.squared_norm) <= 4 * share * expected.squared_norm);
  double greatest = 0;
  for (auto const& [name, values] : expected.gradients)
    for (double const value : values) greatest = std::max(greatest, std::abs(value));
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (auto const& at : expected.gradients) {
    auto const& [name, values] = at;
    double worst = 0;
    auto const& mine = got.gradients.at(name);
    REQUIRE(mine.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const apart = std::abs(mine[i] - values[i]);
      worst = apart <= worst ? worst : apart;  // NaN is taken over
    }
    CHECK_MESSAGE(worst <= share * greatest, at.first);
  }
}

TEST_CASE("both forms in fp32 equal fp64 on the host but for rounding") {
  if (!test::has_gpu()) return;
  check<float>(config(false), {}, 1e-5);
  check<float>(config(true), {}, 1e-5);
}

TEST_CASE("both forms in bf16 are as close as its eight bits allow") {
  if (!test::has_gpu()) return;
  check<bf16>(config(false), {}, 0.08);
  check<bf16>(config(true), {}, 0.08);
}

TEST_CASE_TEMPLATE("2 to 8 ranks that share a GPU", T, float, bf16) {
  if (!test::has_gpu()) return;
  double const share = sizeof(T) == 2 ? 0.08 : 1e-5;
  parallel::train::pipeline_options const zero_bubble{.schedule = "zb-v", .stages_per_rank = 2};
  for (model_layout const& how :
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
    check<T>(config(true), how, share);
}

}  // namespace gpu_model_test
