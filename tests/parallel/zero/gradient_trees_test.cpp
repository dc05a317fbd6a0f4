// Gradients as leaves of aligned trees: the order of additions is that of the tree, each use of a
// unit has a tree of its own, and memory is used again.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/gradient_trees.hpp>

namespace gradient_trees_test {

using trees = parallel::zero::gradient_trees<float, parallel::host::device>;

/// The sum of leaves [begin, end) by the aligned tree, recursively.
float by_tree(std::vector<float> const& leaves, std::size_t begin, std::size_t span) {
  if (span == 1) return leaves[begin];
  float const left = by_tree(leaves, begin, span / 2);
  std::size_t const middle = begin + span / 2;
  return middle < leaves.size() ? left + by_tree(leaves, middle, span / 2) : left;
}

std::vector<float> rounded(std::size_t count) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back((i % 4 == 1 ? -3e4F : 1e4F) / static_cast<float>(7 * i + 3));
  return out;
}

TEST_CASE("leaves are added in the order of the tree, again in every step") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees all;
  int const unit = 0;
  int differs = 0;  // from sums in order
  for (std::size_t const count : {1U, 2U, 3U, 5U, 6U, 7U, 8U, 11U}) {
    CAPTURE(count);
    auto const leaves = rounded(count);
    for (float const leaf : leaves) {
      float* const to = all.begin_leaf(&unit, 0, 3, device);
      compute.enqueue([to, leaf] {
        for (int i = 0; i < 3; ++i) to[i] = leaf * static_cast<float>(i + 1);
      });
      all.end_leaf(&unit, 0, compute);
    }
    float const* const sum = all.finish(&unit, 0, compute);
    compute.synchronize();
    std::size_t span = 1;
    while (span < count) span *= 2;
    REQUIRE(sum != nullptr);
    CHECK(sum[0] == by_tree(leaves, 0, span));
    CHECK(sum[1] == 2 * by_tree(leaves, 0, span));
    float in_order = 0;
    for (float const leaf : leaves) in_order += leaf;
    if (in_order != sum[0]) ++differs;
  }
  CHECK(differs > 0);  // so the test has teeth
}

TEST_CASE("uses and units have trees of their own; without leaves there is no sum") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees all;
  int const units[2] = {};
  float value = 1;
  for (int const& unit : units)
    for (std::size_t const use : {0U, 1U}) {
      CHECK(all.finish(&unit, use, compute) == nullptr);
      *all.begin_leaf(&unit, use, 1, device) = value;
      all.end_leaf(&unit, use, compute);
      value *= 10;
    }
  value = 1;
  for (int const& unit : units)
    for (std::size_t const use : {0U, 1U}) {
      float const* const sum = all.finish(&unit, use, compute);
      compute.synchronize();
      CHECK(*sum == value);
      CHECK(all.finish(&unit, use, compute) == nullptr);  // of a step without leaves
      value *= 10;
    }
}

TEST_CASE("n leaves take the memory of a buffer for each bit of n, which later steps use again") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees all;
  int const unit = 0;
  std::size_t const one = [] {
    parallel::host::device alone;
    auto const memory = alone.allocate<float>(64);
    return alone.bytes();
  }();
  for (int step = 0; step < 3; ++step) {
    for (int leaf = 0; leaf < 7; ++leaf) {
      (void)all.begin_leaf(&unit, 0, 64, device);
      all.end_leaf(&unit, 0, compute);
    }
    (void)all.finish(&unit, 0, compute);
    compute.synchronize();
    CHECK(device.bytes() == 3 * one);
  }
}

}  // namespace gradient_trees_test
