// Thread blocks as tests run them on the host: barriers, exchanges, the bounds of shared memory,
// and errors of bodies in their use.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <parallel/device/cuda/block.hpp>

#include "support/devices/host_block.hpp"

namespace cuda_block_test {

using namespace parallel;
using testing::host_block;
using testing::thread_order;

/// Every thread adds the numbers of all threads of its block.
struct add_all {
  float* out;
  template <class Block>
  void operator()(Block& b) const {
    auto* const scratch = b.template shared<float>();
    float const sum = cuda::combine_block(b, static_cast<float>(b.thread()), scratch, cuda::plus{});
    b.sync();
    out[b.block() * b.threads() + b.thread()] = sum + static_cast<float>(b.block());
  }
};

TEST_CASE("combine_block: every thread gets the full sum, in every order of threads") {
  for (unsigned const threads : {32U, 96U, 1024U}) {
    std::vector<float> out(std::size_t{3} * threads);
    auto const expected = static_cast<float>(threads * (threads - 1) / 2);
    testing::run_in_every_order(3, threads, threads / 32 * sizeof(float), add_all{out.data()},
                                [&](auto) {
                                  for (std::size_t i = 0; i < out.size(); ++i)
                                    CHECK(out[i] == expected + static_cast<float>(i / threads));
                                  out.assign(out.size(), 0);
                                });
  }
}

/// The other threads read what the first thread writes without a barrier.
struct lacks_a_barrier {
  int* out;
  template <class Block>
  void operator()(Block& b) const {
    if (b.thread() == 0) *b.template shared<int>() = 7;
    out[b.thread()] = *b.template shared<int>();
  }
};

TEST_CASE("host_block: a missing barrier changes the result in some order of threads") {
  std::vector<int> out(64);
  host_block::run_grid(1, 64, sizeof(int), thread_order::ascending, lacks_a_barrier{out.data()});
  CHECK(out[63] == 7);
  host_block::run_grid(1, 64, sizeof(int), thread_order::descending, lacks_a_barrier{out.data()});
  CHECK(out[63] == -1);  // shared memory begins as 0xff bytes
}

/// Half of the threads reach a barrier; the others have ended.
struct half_a_barrier {
  template <class Block>
  void operator()(Block& b) const {
    if (b.thread() % 2 == 0) b.sync();
  }
};

struct writes_behind {
  std::size_t bytes;
  template <class Block>
  void operator()(Block& b) const {
    if (b.thread() == 5) b.template shared<char>()[bytes] = 1;
  }
};

TEST_CASE("host_block: unreached barriers and writes beyond shared memory are errors") {
  auto const run = [](std::size_t shared, auto const& body) {
    host_block::run_grid(1, 64, shared, thread_order::ascending, body);
  };
  CHECK_THROWS_WITH_AS(run(0, half_a_barrier{}), doctest::Contains("others do not reach"), error);
  CHECK_THROWS_WITH_AS(run(12, writes_behind{12}), "block 0: written past its shared memory",
                       error);
  CHECK_NOTHROW(run(12, writes_behind{11}));
  std::vector<float> out(64);
  CHECK_NOTHROW(run(2 * sizeof(float), add_all{out.data()}));  // the stopped threads have no effect
  CHECK(out[40] == 2016);
}

}  // namespace cuda_block_test
