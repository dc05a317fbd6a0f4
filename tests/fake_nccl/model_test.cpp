// MPT trained over NCCL's classes, a fake GPU each rank, in every kind of layout.
#include <doctest/doctest.h>

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <vector>

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

TEST_CASE("every three axes together, and all of them with ZeRO 3 and offloaded states") {
  check(small_model(true),
        {.context = 2, .tensor = 2, .pipeline = 2, .schedule = overlapped("1f1b")});
  model_layout sharded{.context = 2,
                       .pipeline = 2,
                       .schedule = overlapped("1f1b"),
                       .level = parameters,
                       .shard = 2,
                       .microbatch = 1,
                       .optimizer = on_host};
  check(small_model(true), sharded);
  sharded.tensor = 2;
  check(small_model(true), sharded);
}

/// Calls that allocate memory, of all ranks together.
struct allocations {
  std::size_t to_reserve = 0;  // and in an evaluation
  std::size_t in_steps = 0;
};
allocations allocations_of(model_layout how) {
  int const ranks = how.context * how.tensor * how.replicate * how.pipeline * how.shard;
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart();
  how.steps = 2;
  std::vector<std::size_t> seen;  // when all are made, and around each step
  std::barrier all(ranks, [&]() noexcept { seen.push_back(fake_cuda::happened().allocations); });
  how.on_created = how.before_step = how.after_begin = [&] { all.arrive_and_wait(); };
  static_cast<void>(test::run_model<float>(
      small_model(true), how, [] { return fake_cuda::current_gpu(); }, fake_nccl::ranks()));
  CHECK(fake_cuda::happened().failures.empty());
  REQUIRE(seen.size() == 5);
  return {seen[1] - seen[0], seen[4] - seen[1]};
}

TEST_CASE("memory is allocated before the first pass, and none from then on") {
  auto const stages =
      allocations_of({.pipeline = 2, .schedule = overlapped("zb-h1"), .microbatch = 1});
  CHECK(stages.to_reserve == 2 * 5);  // scratch and constants of two streams, and results
  CHECK(stages.in_steps == 0);
  auto const shards = allocations_of({.level = parameters, .shard = 2, .microbatch = 1});
  CHECK(shards.to_reserve == 2 * 3);
  CHECK(shards.in_steps == 0);
}

}  // namespace fake_nccl_model_test
