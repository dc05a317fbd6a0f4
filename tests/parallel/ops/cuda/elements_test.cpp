// The loops over elements: every element is visited once, in groups only if alignment allows it,
// and no launch has more threads than have work.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/elements.hpp>

#include "support/devices/host_block.hpp"

namespace cuda_elements_test {

using namespace parallel;
using parallel::index;

/// Counts visits of elements; the loops take it for a thread block.
template <class Loop>
struct counting {
  std::vector<int>* visits;
  std::vector<unsigned>* threads;  // indices of the visiting threads in the grid, in order
  Loop loop;

  template <class Block>
  void operator()(Block& b) const {
    loop(b, [this, &b](index first, unsigned n) {
      threads->push_back(b.block() * b.threads() + b.thread());
      for (index i = first; i < first + static_cast<index>(n); ++i)
        ++visits->at(static_cast<std::size_t>(i));
    });
  }
};

/// Visits of `size` elements by a grid of `blocks` blocks of 64 threads, all run by one thread.
template <class Loop>
std::vector<unsigned> visit_all(index size, unsigned blocks, Loop const& loop) {
  std::vector<int> visits(static_cast<std::size_t>(size));
  std::vector<unsigned> threads;
  testing::host_block::run_grid(blocks, 64, 0, testing::thread_order::shuffled,
                                counting<Loop>{&visits, &threads, loop});
  CHECK(std::ranges::all_of(visits, [](int n) { return n == 1; }));
  return threads;
}

TEST_CASE(
    "groups of elements: a group holds 16 bytes of the widest type, and fewer of the others") {
  CHECK(cuda::group_size<bf16> == 8);
  CHECK(cuda::group_size<bf16, float> == 4);
  CHECK(cuda::group_size<bf16, double, std::uint8_t> == 2);
  CHECK(sizeof(cuda::group<bf16, 4>) == 8);
  CHECK(alignof(cuda::group<bf16, 4>) == 8);
  alignas(16) bf16 const values[16] = {};
  CHECK(cuda::groupable<4>(values + 4));
  CHECK_FALSE(cuda::groupable<8>(values + 4));
  CHECK(cuda::groupable_rows<4>(values, 8, 12));
  CHECK_FALSE(cuda::groupable_rows<4>(values, 8, 10));
  CHECK_FALSE(cuda::groupable_rows<4>(values, 6, 12));
}

TEST_CASE(
    "loops over elements: a flat array is visited once, element by element if it is not aligned") {
  for (index const count : {0, 1, 3, 4, 130, 1003})
    for (bool const aligned : {false, true})
      visit_all(count, 2, [=](auto& b, auto const& visit) {
        cuda::for_each_group_of_grid<4>(b, static_cast<std::size_t>(count), aligned,
                                        [&]<unsigned n>(std::size_t i) {
                                          if (!aligned) CHECK(n == 1);
                                          if (n > 1) CHECK(i % n == 0);
                                          visit(static_cast<index>(i), n);
                                        });
      });
}

TEST_CASE("loops over elements: rows are visited once, by any grid") {
  for (index const rows : {0, 1, 5})
    for (index const columns : {0, 4, 8, 512, 516, 1540})
      for (unsigned const blocks : {1U, 3U, 40U})
        for (bool const aligned : {false, true}) {
          visit_all(rows * columns, blocks, [=](auto& b, auto const& visit) {
            cuda::for_each_in_rows<4>(b, rows, columns, aligned, [&]<unsigned n>(index r, index c) {
              CHECK(n == (aligned ? 4 : 1));
              visit(r * columns + c, n);
            });
          });
        }
}

TEST_CASE(
    "loops over elements: each thread of the launch takes up to four groups of a row, or one") {
  CHECK(cuda::threads_in_rows<4>(3, 512) == 3 * 32);
  CHECK(cuda::threads_in_rows<4>(3, 513) == 6 * 32);
  CHECK(cuda::threads_in_rows<4, 1>(3, 512) == 12 * 32);
  CHECK(cuda::threads_in_rows<4>(0, 512) == 0);
  CHECK(cuda::threads_in_rows<4>(3, 0) == 0);
  auto threads = visit_all(3 * 512, 6, [](auto& b, auto const& visit) {
    cuda::for_each_in_rows<4, 1>(b, 3, 512, true,
                                 [&]<unsigned n>(index r, index c) { visit(r * 512 + c, n); });
  });
  std::ranges::sort(threads);
  CHECK(std::ranges::adjacent_find(threads) == threads.end());
  CHECK(threads.size() == cuda::threads_in_rows<4, 1>(3, 512));
}

}  // namespace cuda_elements_test
