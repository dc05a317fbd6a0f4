// The exact layouts on fake GPUs, shared or one a rank: integers modulo 2^64, so that every layout
// must equal one rank of the host bit for bit, at whatever pace streams run.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fake_cuda/ranks.hpp"
#include "support/ring_items_cuda.hpp"
#include "support/ring_matrix.hpp"

namespace fake_ring_test {

std::string run(test::layout const& how, test::ring_references& references, int gpus,
                parallel::cuda::stream_options const& options, bool peers) {
  auto const got = test::run_on(
      how, [&] { return fake_cuda::current_gpu(options); }, fake_cuda::ranks_on(gpus));
  CHECK(got.scratch > 0);
  if (peers) CHECK(fake_cuda::scratch_taken(gpus) == got.scratch);  // else exchanges have some too
  return test::difference(got, references.outcome_of(how));
}

void check(std::vector<test::layout> const& layouts) {
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& how : layouts) {
    ++seed;
    int const ranks = how.shape().ranks();
    int const gpus = seed % 3 == 0 ? 1 : ranks;
    bool const peers = seed % 4 != 0;
    fake_cuda::restart({.devices = gpus, .peers = peers, .seed = seed});
    CAPTURE(seed);
    CHECK_MESSAGE(run(how, references, gpus, {.graphs = seed % 2 == 0}, peers) == "",
                  test::text(how));
    CHECK(fake_cuda::happened().failures.empty());
  }
}

std::vector<test::layout> layouts(std::size_t count) {
  std::vector<test::layout> all;
  for (auto const& how : test::all_layouts(4, 4))
    if (test::refusal(how).empty()) all.push_back(how);
  return test::spread(all, count);
}

TEST_CASE("16 mixed layouts of up to 4 ranks") { check(layouts(16)); }

TEST_CASE("[full] 150 mixed layouts of up to 4 ranks") { check(layouts(150)); }

}  // namespace fake_ring_test
