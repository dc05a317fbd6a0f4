// MPT trained on fake GPUs through cuda::device and cuda::stream, in every kind of layout: the
// numbers of the host's fp64 but for rounding, and the same bits whatever pace streams run at.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "fake_cuda/ranks.hpp"
#include "support/model_form.hpp"
#include "support/model_run.hpp"

namespace fake_model_test {

using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

mpt::model_config config(bool with_alibi) {
  mpt::model_config m;
  m.d_model = 16;
  m.n_heads = 2;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = 8;
  m.expansion_ratio = 2;
  return test::model_form(m, with_alibi);
}

constexpr auto on_host = parallel::zero::optimizer_memory::host;

/// With weight gradients on a stream of their own.
parallel::train::pipeline_options overlapped(char const* schedule) {
  return {.schedule = schedule, .overlap_weight_gradients = true};
}

struct machine {
  int gpus = 1;
  bool graphs = false;  // where blocks exchange nothing within
  bool peers = true;
};

void check(mpt::model_config const& m, model_layout how, machine on) {
  how.steps = on.graphs ? 3 : 2;  // the third runs the second's graphs
  auto const expected = test::run_model<double>(m, how);
  double greatest = 0;
  for (auto const& [name, values] : expected.gradients)
    for (double const value : values) greatest = std::max(greatest, std::abs(value));
  test::model_outcome first;
  static std::uint64_t seed = 0;
  for (bool const again : {false, true}) {
    ++seed;
    CAPTURE(seed);
    fake_cuda::restart({.devices = on.gpus, .peers = on.peers, .seed = seed});
    auto const got = test::run_model<float>(
        m, how, [&] { return fake_cuda::current_gpu({.graphs = on.graphs}); },
        fake_cuda::ranks_on(on.gpus));
    CHECK(fake_cuda::happened().failures.empty());
    CHECK((fake_cuda::happened().graph_launches > 0) == on.graphs);
    if (!again) {
      first = got;
      continue;
    }
    CHECK(got.loss == first.loss);
    CHECK(got.evaluated == first.evaluated);
    CHECK(got.squared_norm == first.squared_norm);
    CHECK(got.gradients == first.gradients);
    CHECK(got.parameters == first.parameters);
  }
  constexpr double share = 1e-5;
  CHECK(first.tokens == expected.tokens);
  CHECK(std::abs(first.loss - expected.loss) <= share * expected.loss);
  CHECK(std::abs(first.evaluated - expected.evaluated) <= share * expected.evaluated);
  REQUIRE(first.gradients.size() == expected.gradients.size());
  for (auto const& [name, values] : expected.gradients) {
    auto const& mine = first.gradients.at(name);
    REQUIRE(mine.size() == values.size());
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const apart = std::abs(mine[i] - values[i]);
      worst = apart <= worst ? worst : apart;  // NaN is taken over
    }
    CHECK_MESSAGE(worst <= share * greatest, name);
  }
}

TEST_CASE("one rank, in both forms, with graphs and without") {
  check(config(false), {}, {});
  check(config(true), {}, {.graphs = true});
  check(config(true), {.schedule = overlapped("1f1b"), .optimizer = on_host}, {.graphs = true});
}

TEST_CASE("ranks with other data, in every ZeRO stage") {
  check(config(true), {.replicate = 2, .microbatch = 1}, {.gpus = 2, .graphs = true});
  check(config(false), {.level = optimizer, .shard = 3, .microbatch = 1, .optimizer = on_host}, {});
  check(config(true), {.level = gradients, .shard = 2, .microbatch = 1},
        {.gpus = 2, .peers = false});
  check(config(true), {.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1},
        {.gpus = 4, .graphs = true});
}

TEST_CASE("ranks that share sequences, matrices and layers") {
  check(config(true), {.context = 2}, {.gpus = 2});
  check(config(false), {.context = 2, .method = context_method::ulysses}, {});
  check(config(false), {.tensor = 2, .optimizer = on_host}, {.gpus = 2});
  check(config(true), {.pipeline = 2, .schedule = overlapped("zb-h1"), .microbatch = 1},
        {.gpus = 2, .graphs = true});
}

TEST_CASE("every two axes together") {
  check(config(true), {.context = 2, .tensor = 2, .schedule = overlapped("1f1b")}, {.gpus = 4});
  check(config(true), {.context = 2, .level = parameters, .shard = 2, .microbatch = 1},
        {.gpus = 2});
  check(config(true),
        {.tensor = 2, .level = gradients, .shard = 2, .microbatch = 1, .optimizer = on_host},
        {.gpus = 4});
  check(config(true),
        {.pipeline = 2, .level = parameters, .shard = 2, .microbatch = 1, .optimizer = on_host},
        {.gpus = 2, .graphs = true});
  check(config(true), {.context = 2, .pipeline = 2, .schedule = overlapped("1f1b")},
        {.gpus = 4, .peers = false});
  check(config(true), {.tensor = 2, .pipeline = 2, .schedule = overlapped("zb-h1")}, {.gpus = 4});
}

}  // namespace fake_model_test
