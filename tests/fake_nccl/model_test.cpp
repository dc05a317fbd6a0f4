// MPT trained over NCCL's classes, with a fake GPU for each rank, in layouts of every axis of
// parallelism.
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

void check(mpt::model_config const& m, model_layout const& layout, bool graphs = false) {
  auto const begin = [&](std::uint64_t seed) {
    int const ranks =
        layout.context * layout.tensor * layout.replicate * layout.pipeline * layout.shard;
    fake_cuda::restart({.devices = ranks, .peers = false, .seed = seed});
    fake_nccl::restart();
  };
  fake_cuda::check_trained_model(m, layout, graphs, begin, fake_nccl::ranks());
  fake_nccl::check_ended();
}

TEST_CASE("MPT over NCCL: data parallel ranks, in every ZeRO stage") {
  check(small_model(true), {.replicate = 2, .microbatch = 1}, true);
  check(small_model(false),
        {.level = optimizer, .shard = 3, .microbatch = 1, .optimizer = on_host});
  check(small_model(true), {.level = gradients, .shard = 2, .microbatch = 1}, true);
  check(small_model(false), {.level = parameters, .shard = 4, .microbatch = 1}, true);
  check(small_model(true), {.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("MPT over NCCL: context, tensor and pipeline parallel ranks") {
  check(small_model(true), {.context = 2});
  check(small_model(false), {.context = 2, .method = context_method::ulysses});
  check(small_model(false), {.tensor = 2, .optimizer = on_host});
  check(small_model(true), {.pipeline = 2, .schedule = overlapped("zb-h1"), .microbatch = 1}, true);
}

TEST_CASE("MPT over NCCL: every two axes of parallelism together") {
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

TEST_CASE("MPT over NCCL: three and four axes together, with ZeRO 3 and offloaded states") {
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

/// The numbers of calls that allocate memory, summed over all ranks.
struct allocations {
  std::size_t before_steps = 0;  // includes an evaluation
  std::size_t in_steps = 0;
};
allocations count_allocations(model_layout layout) {
  int const ranks =
      layout.context * layout.tensor * layout.replicate * layout.pipeline * layout.shard;
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart();
  layout.steps = 2;
  // one count after the models are made, and one before and after each begin_step
  std::vector<std::size_t> counts;
  std::barrier barrier(ranks,
                       [&]() noexcept { counts.push_back(fake_cuda::history().allocations); });
  layout.on_created = layout.before_step = layout.after_begin = [&] { barrier.arrive_and_wait(); };
  static_cast<void>(test::run_model<float>(
      small_model(true), layout, [] { return fake_cuda::current_gpu(); }, fake_nccl::ranks()));
  CHECK(fake_cuda::history().failures.empty());
  REQUIRE(counts.size() == 5);
  return {counts[1] - counts[0], counts[4] - counts[1]};
}

TEST_CASE("MPT over NCCL: memory is allocated only before the first step") {
  auto const stages =
      count_allocations({.pipeline = 2, .schedule = overlapped("zb-h1"), .microbatch = 1});
  CHECK(stages.before_steps == 2 * 5);  // scratch and constants of two streams, and results
  CHECK(stages.in_steps == 0);
  auto const shards = count_allocations({.level = parameters, .shard = 2, .microbatch = 1});
  CHECK(shards.before_steps == 2 * 3);
  CHECK(shards.in_steps == 0);
}

}  // namespace fake_nccl_model_test
