// The exact layouts on fake GPUs, shared or one for each rank. The elements are integers modulo
// 2^64, so every layout must equal one rank of the host bit for bit, at any pace of the streams.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fake_cuda/ranks.hpp"
#include "support/ring/ring_items_cuda.hpp"
#include "support/ring/ring_matrix.hpp"

namespace fake_ring_test {

std::string run(test::layout const& layout, test::ring_references& references, int gpus,
                parallel::cuda::stream_options const& options, bool peers) {
  auto const got = test::run_on(
      layout, [&] { return fake_cuda::current_gpu(options); }, fake_cuda::ranks_on(gpus));
  CHECK(got.scratch > 0);
  // Without peers exchanges take scratch too.
  if (peers) CHECK(fake_cuda::peak_scratch(gpus) == got.scratch);
  return test::difference(got, references.outcome_of(layout));
}

void check(std::vector<test::layout> const& layouts) {
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& layout : layouts) {
    ++seed;
    int const ranks = layout.shape().ranks();
    int const gpus = seed % 3 == 0 ? 1 : ranks;
    bool const peers = seed % 4 != 0;
    fake_cuda::restart({.devices = gpus, .peers = peers, .seed = seed});
    CAPTURE(seed);
    CHECK_MESSAGE(run(layout, references, gpus, {.graphs = seed % 2 == 0}, peers) == "",
                  test::text(layout));
    CHECK(fake_cuda::history().failures.empty());
  }
}

std::vector<test::layout> layouts(std::size_t count) {
  std::vector<test::layout> candidates;
  for (auto const& layout : test::all_layouts(4, 4))
    if (test::refusal(layout).empty()) candidates.push_back(layout);
  return test::spread(candidates, count);
}

TEST_CASE("fake GPUs: 16 mixed layouts of up to 4 ranks equal one rank of the host") {
  check(layouts(16));
}

TEST_CASE("[full] fake GPUs: 150 mixed layouts of up to 4 ranks equal one rank of the host") {
  check(layouts(150));
}

}  // namespace fake_ring_test
