// MPT trained over NCCL's classes, a fake GPU each rank, in every kind of layout.
#include <doctest/doctest.h>

#include "fake_cuda/trained_model.hpp"
#include "fake_nccl/ranks.hpp"

namespace fake_nccl_model_test {

using fake_cuda::overlapped;
using fake_cuda::small_model;
using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

constexpr auto on_host = parallel::zero::optimizer_memory::host;

void check(mpt::model_config const& m, model_layout const& how, bool graphs = false) {
  auto const begin = [&](std::uint64_t seed) {
    int const ranks = how.context * how.tensor * how.replicate * how.pipeline * how.shard;
    fake_cuda::restart({.devices = ranks, .peers = false, .seed = seed});
    fake_nccl::restart();
  };
  fake_cuda::check_trained_model(m, how, graphs, begin, fake_nccl::ranks());
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("ranks with other data, in every ZeRO stage") {
  check(small_model(true), {.replicate = 2, .microbatch = 1}, true);
  check(small_model(false),
        {.level = optimizer, .shard = 3, .microbatch = 1, .optimizer = on_host});
  check(small_model(true), {.level = gradients, .shard = 2, .microbatch = 1}, true);
  check(small_model(false), {.level = parameters, .shard = 4, .microbatch = 1}, true);
  check(small_model(true), {.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("ranks that share sequences, matrices and layers") {
  check(small_model(true), {.context = 2});
  check(small_model(false), {.context = 2, .method = context_method::ulysses});
  check(small_model(false), {.tensor = 2, .optimizer = on_host});
  check(small_model(true), {.pipeline = 2, .schedule = overlapped("zb-h1"), .microbatch = 1}, true);
}

TEST_CASE("every two axes together") {
  check(small_model(true), {.context = 2, .tensor = 2, .schedule = overlapped("1f1b")});
  check(small_model(true), {.context = 2, .level = parameters, .shard = 2, .microbatch = 1});
  check(small_model(true),
        {.tensor = 2, .level = gradients, .shard = 2, .microbatch = 1, .optimizer = on_host});
  check(small_model(true),
        {.pipeline = 2, .level = parameters, .shard = 2, .microbatch = 1, .optimizer = on_host},
        true);
  check(small_model(true), {.context = 2, .pipeline = 2, .schedule = overlapped("1f1b")});
  check(small_model(true), {.tensor = 2, .pipeline = 2, .schedule = overlapped("zb-h1")});
}

}  // namespace fake_nccl_model_test
