// MPT trained on fake GPUs through cuda::device and cuda::stream, in every kind of layout: the
// numbers equal the host's in fp64 up to rounding, and the bits do not depend on the streams' pace.
#include <cstdint>

#include <doctest/doctest.h>

#include "fake_cuda/trained_model.hpp"

namespace fake_model_test {

using fake_cuda::overlapped;
using fake_cuda::small_model;
using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

constexpr auto on_host = parallel::zero::optimizer_memory::host;

struct gpu_options {
  int gpus = 1;
  bool graphs = false;  // only for blocks without an exchange inside
  bool peers = true;
};

void check(mpt::model_config const& m, model_layout const& layout, gpu_options options) {
  auto const begin = [&](std::uint64_t seed) {
    fake_cuda::restart({.devices = options.gpus, .peers = options.peers, .seed = seed});
  };
  // without peer access exchanges take scratch too
  fake_cuda::check_trained_model(m, layout, options.graphs, begin,
                                 fake_cuda::ranks_on(options.gpus),
                                 options.peers ? options.gpus : 0);
}

TEST_CASE("MPT on fake GPUs: one rank, in both forms, with and without graphs") {
  check(small_model(false), {}, {});
  check(small_model(true), {}, {.graphs = true});
  check(small_model(true), {.schedule = overlapped("1f1b"), .optimizer = on_host},
        {.graphs = true});
}

TEST_CASE("MPT on fake GPUs: data parallel ranks, in every ZeRO stage") {
  check(small_model(true), {.replicate = 2, .microbatch = 1}, {.gpus = 2, .graphs = true});
  check(small_model(false), {.level = optimizer, .shard = 3, .microbatch = 1, .optimizer = on_host},
        {});
  check(small_model(true), {.level = gradients, .shard = 2, .microbatch = 1},
        {.gpus = 2, .peers = false});
  check(small_model(true), {.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1},
        {.gpus = 4, .graphs = true});
}

TEST_CASE("MPT on fake GPUs: context, tensor and pipeline parallel ranks") {
  check(small_model(true), {.context = 2}, {.gpus = 2});
  check(small_model(false), {.context = 2, .method = context_method::ulysses}, {});
  check(small_model(false), {.tensor = 2, .optimizer = on_host}, {.gpus = 2});
  check(small_model(true), {.pipeline = 2, .schedule = overlapped("zb-h1"), .microbatch = 1},
        {.gpus = 2, .graphs = true});
}

TEST_CASE("MPT on fake GPUs: every two axes of parallelism together") {
  check(small_model(true), {.context = 2, .tensor = 2, .schedule = overlapped("1f1b")},
        {.gpus = 4});
  check(small_model(true), {.context = 2, .level = parameters, .shard = 2, .microbatch = 1},
        {.gpus = 2});
  check(small_model(true),
        {.tensor = 2, .level = gradients, .shard = 2, .microbatch = 1, .optimizer = on_host},
        {.gpus = 4});
  check(small_model(true),
        {.pipeline = 2, .level = parameters, .shard = 2, .microbatch = 1, .optimizer = on_host},
        {.gpus = 2, .graphs = true});
  check(small_model(true), {.context = 2, .pipeline = 2, .schedule = overlapped("1f1b")},
        {.gpus = 4, .peers = false});
  check(small_model(true), {.tensor = 2, .pipeline = 2, .schedule = overlapped("zb-h1")},
        {.gpus = 4});
}

}  // namespace fake_model_test
