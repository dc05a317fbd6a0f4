// The problems that cuDNN accepts, tested without a device: cuDNN looks for engines for a device
// that is described to it. This needs some libcuda; the stub of the CUDA Toolkit is sufficient. If
// cuDNN cannot do that, the tests print "skipped".
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <parallel/core/philox.hpp>
#include <parallel/ops/cuda/attention/attention_path.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/cudnn/plan.hpp>

namespace cudnn_attention_graph_test {

using namespace parallel::cuda::cudnn;
using parallel::bf16;
using parallel::index;
using parallel::cuda::attention_problem;
using parallel::cuda::attention_strides;

/// An H200, as its CUDA driver describes it; or a device like it of another compute capability.
std::string described(int capability) {
  auto const number = [](auto value) { return std::to_string(value); };
  return R"({"schemaVersion":4,"deviceName":"NVIDIA H200","cudaDeviceId":0,"pciDeviceId":0,)"
         R"("driverVer":13000,"isTccDriver":0,"supportCoopLaunch":1,"warpSize":32,)"
         R"("multiProcessorCount":132,"maxCtasPerSM":32,"maxThreadsPerSM":2048,)"
         R"("maxThreadsPerBlock":1024,"maxBlockSize":[1024,1024,64],)"
         R"("maxGridSize":[2147483647,65535,65535],"regsPerBlock":65536,)"
         R"("maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
         R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
         R"("totalGlobalMem":150754820096,"l2CacheSize":62914560,"smClockRateKHz":1980000,)"
         R"("memClockRateKHz":3201000,"cudnnVersion":)" +
         number(cudnnGetVersion()) + R"(,"deviceVer":)" + number(10 * capability) + "}";
}

/// Engines for a graph on an H200, or a device like it.
std::size_t engines(graph const& g, int capability = 90) {
  auto const device = described_device(described(capability));
  return candidates(g.operations(nullptr), &device).size();
}

/// Whether cuDNN finds engines for a described device at all, tested by one addition.
bool looks_for_engines() {
  try {
    graph g;
    auto const image = [&](std::int64_t uid) {  // channels last, which additions need
      return g.memory(uid, CUDNN_DATA_BFLOAT16, {8, 32, 16, 16}, {8192, 1, 512, 32});
    };
    g.apply(CUDNN_POINTWISE_ADD, image(1), image(2), image(3));
    if (engines(g) > 0) return true;
    MESSAGE("skipped: cuDNN ", cudnnGetVersion(), " finds no engine, not even for an addition");
  } catch (parallel::error const& failure) {
    MESSAGE("skipped: ", failure.what());
  }
  return false;
}

/// Packed [q | k | v] of whole sequences, and gradients likewise.
attention_problem packed(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                         std::int64_t key_heads, std::int64_t head_dim) {
  std::int64_t const row = (heads + 2 * key_heads) * head_dim;
  attention_problem problem;
  problem.batch = batch;
  problem.sequence = sequence;
  problem.heads = heads;
  problem.key_heads = key_heads;
  problem.head_dim = head_dim;
  problem.q = problem.k = problem.v = {sequence * row, row};
  problem.dq = problem.dk = problem.dv = problem.q;
  problem.out = problem.dout = {sequence * heads * head_dim, heads * head_dim};
  return problem;
}

void check_accepted(attention_problem problem, int capability = 90) {
  CAPTURE(capability);
  CAPTURE(problem.batch);
  CAPTURE(problem.sequence);
  CAPTURE(problem.heads);
  CAPTURE(problem.key_heads);
  CAPTURE(problem.head_dim);
  CAPTURE(problem.queries_after_keys);
  CAPTURE(problem.alibi);
  CAPTURE(problem.documents);
  CAPTURE(problem.max_documents);
  CAPTURE(problem.window);
  CHECK(engines(attention_forward_graph(problem), capability) > 0);
  CHECK(engines(attention_backward_graph(problem), capability) > 0);
  if (problem.documents && (capability != 90 || problem.max_documents > 0)) return;
  problem.deterministic = true;
  CHECK(engines(attention_backward_graph(problem), capability) > 0);
}

TEST_CASE(
    "fused attention: cuDNN accepts causal attention, ALiBi, documents, windows and shared key "
    "heads") {
  if (!looks_for_engines()) return;
  for (std::int64_t const head_dim : {64, 128})
    for (std::int64_t const key_heads : {16, 4, 1})
      for (bool const alibi : {false, true})
        for (bool const documents : {false, true})
          for (std::int64_t const window : {-1, 256}) {
            auto problem = packed(16, 2048, 16, key_heads, head_dim);
            problem.alibi = alibi;
            problem.documents = documents;
            problem.window = window;
            check_accepted(problem);
          }
}

TEST_CASE("fused attention: cuDNN accepts attention to keys that precede all queries") {
  if (!looks_for_engines()) return;
  for (int const capability : {80, 90, 100})
    for (std::int64_t const head_dim : {64, 128})
      for (std::int64_t const key_heads : {16, 4, 1})
        for (bool const alibi : {false, true})
          for (std::int64_t const window : {-1, 5000}) {
            auto problem = packed(2, 4096, 16, key_heads, head_dim);
            problem.queries_after_keys = true;
            problem.alibi = alibi;
            problem.window = window;
            check_accepted(problem, capability);
            problem.documents = true;
            problem.full_sequence = 16384;
            if (capability >= 90) check_accepted(problem, capability);
            problem.queries_after_keys = false;  // the part itself
            if (capability >= 90) check_accepted(problem, capability);
          }
}

TEST_CASE("fused attention: cuDNN accepts documents as separate sequences") {
  if (!looks_for_engines()) return;
  for (int const capability : {90, 100})
    for (std::int64_t const head_dim : {64, 96, 128})
      for (std::int64_t const key_heads : {16, 4, 1})
        for (bool const alibi : {false, true})
          for (std::int64_t const window : {-1, 256}) {
            auto problem = packed(16, 2048, 16, key_heads, head_dim);
            problem.documents = true;
            problem.max_documents = 64;
            problem.alibi = alibi;
            problem.window = window;
            check_accepted(problem, capability);
          }
}

TEST_CASE("fused attention: cuDNN accepts every problem that goes to the fused kernels") {
  if (!looks_for_engines()) return;
  parallel::philox const source(1, 2);
  std::uint64_t drawn = 0;
  auto const draw = [&](index count) { return static_cast<index>(source.bits(drawn++)) % count; };
  std::array<std::int32_t, 1> const begins{};  // only whether there are values matters
  for (int i = 0; i < 60; ++i) {
    int const capability = std::array{80, 90, 90, 100}[static_cast<std::size_t>(i % 4)];
    index const key_heads = 1 + draw(4);
    auto problem = packed(1 + draw(3), 1 + draw(300), key_heads * (1 + draw(3)), key_heads,
                          4 * (1 + draw(66)));
    problem.alibi = draw(2) == 0;
    problem.documents = draw(2) == 0;
    problem.window = draw(2) == 0 ? draw(problem.sequence) : -1;
    auto const view = [&](std::int64_t heads, attention_strides const& strides) {
      return parallel::ops::heads_view<bf16 const>{nullptr,    problem.batch,    problem.sequence,
                                                   heads,      problem.head_dim, strides.batch,
                                                   strides.row};
    };
    auto const q = view(problem.heads, problem.q);
    auto const k = view(problem.key_heads, problem.k);
    auto const path = parallel::cuda::detail::common_attention_path<bf16>(
        {.library = static_cast<int>(cudnnGetVersion()), .capability = capability},
        {.document_begins = std::span(begins).first(problem.documents ? begins.size() : 0)}, q, k,
        {q, k}, nullptr);
    if (path.fused) check_accepted(problem, capability);
    problem.max_documents = std::int64_t{1} << draw(10);
    if (path.fused && problem.documents && problem.head_dim % 16 == 0)
      check_accepted(problem, capability);
  }
}

TEST_CASE("fused attention: cuDNN refuses a problem that it does not support") {
  if (!looks_for_engines()) return;
  CHECK(engines(attention_forward_graph(packed(2, 128, 4, 4, 20))) == 0);
  for (std::int64_t const head_dim : {20, 264})
    CHECK(engines(attention_backward_graph(packed(2, 128, 4, 4, head_dim))) == 0);
  auto documents = packed(2, 128, 4, 4, 64);
  documents.documents = true;
  CHECK(engines(attention_backward_graph(documents), 80) == 0);
  documents.max_documents = 16;
  CHECK(engines(attention_forward_graph(documents), 120) > 0);
  CHECK(engines(attention_backward_graph(documents), 120) == 0);
}

}  // namespace cudnn_attention_graph_test
