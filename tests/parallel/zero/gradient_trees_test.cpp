// Gradients as leaves of aligned trees: additions are in the order of the tree, each use of a unit
// has its own tree, and memory is reused.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/gradient_trees.hpp>

namespace gradient_trees_test {

using trees = parallel::zero::gradient_trees<float, parallel::host::device>;

/// The sum of leaves [begin, end) by the aligned tree, recursively.
float tree_sum(std::vector<float> const& leaves, std::size_t begin, std::size_t span) {
  if (span == 1) return leaves[begin];
  float const left = tree_sum(leaves, begin, span / 2);
  std::size_t const middle = begin + span / 2;
  return middle < leaves.size() ? left + tree_sum(leaves, middle, span / 2) : left;
}

std::vector<float> rounded(std::size_t count) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back((i % 4 == 1 ? -3e4F : 1e4F) / static_cast<float>(7 * i + 3));
  return out;
}

TEST_CASE("gradient trees: leaves are added in the order of the tree, in every step") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees gradient_trees;
  int const unit = 0;
  int differs = 0;  // number of results that differ from sums in order
  for (std::size_t const count : {1U, 2U, 3U, 5U, 6U, 7U, 8U, 11U}) {
    CAPTURE(count);
    auto const leaves = rounded(count);
    for (float const leaf : leaves) {
      float* const elements = gradient_trees.begin_leaf(&unit, 0, 3, device);
      compute.enqueue([elements, leaf] {
        for (int i = 0; i < 3; ++i) elements[i] = leaf * static_cast<float>(i + 1);
      });
      gradient_trees.end_leaf(&unit, 0, compute);
    }
    float const* const sum = gradient_trees.finish(&unit, 0, 1, compute);
    compute.synchronize();
    std::size_t span = 1;
    while (span < count) span *= 2;
    REQUIRE(sum != nullptr);
    CHECK(sum[0] == tree_sum(leaves, 0, span));
    CHECK(sum[1] == 2 * tree_sum(leaves, 0, span));
    float in_order = 0;
    for (float const leaf : leaves) in_order += leaf;
    if (in_order != sum[0]) ++differs;
  }
  CHECK(differs > 0);  // the order matters for these numbers
}

TEST_CASE("gradient trees: the sums of several ranks in one leaf are combined by the same tree") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees gradient_trees;
  int const unit = 0;
  for (int const ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    auto const sums = rounded(static_cast<std::size_t>(ranks));
    float* const elements =
        gradient_trees.begin_leaf(&unit, static_cast<std::size_t>(ranks), sums.size(), device);
    compute.enqueue([elements, &sums] { std::ranges::copy(sums, elements); });
    gradient_trees.end_leaf(&unit, static_cast<std::size_t>(ranks), compute);
    float const* const sum =
        gradient_trees.finish(&unit, static_cast<std::size_t>(ranks), ranks, compute);
    compute.synchronize();
    CHECK(*sum == tree_sum(sums, 0, std::bit_ceil(sums.size())));
  }
}

TEST_CASE("gradient trees: each use and unit has its own tree; without leaves there is no sum") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees gradient_trees;
  int const units[2] = {};
  float value = 1;
  for (int const& unit : units)
    for (std::size_t const use : {0U, 1U}) {
      CHECK(gradient_trees.finish(&unit, use, 1, compute) == nullptr);
      *gradient_trees.begin_leaf(&unit, use, 1, device) = value;
      gradient_trees.end_leaf(&unit, use, compute);
      value *= 10;
    }
  value = 1;
  for (int const& unit : units)
    for (std::size_t const use : {0U, 1U}) {
      float const* const sum = gradient_trees.finish(&unit, use, 1, compute);
      compute.synchronize();
      CHECK(*sum == value);
      CHECK(gradient_trees.finish(&unit, use, 1, compute) == nullptr);  // of a step without leaves
      value *= 10;
    }
}

TEST_CASE("gradient trees: n leaves take one buffer for each bit of n, which later steps reuse") {
  parallel::host::device device;
  parallel::host::stream compute;
  trees gradient_trees;
  int const unit = 0;
  std::size_t const bytes_per_buffer = [] {
    parallel::host::device other_device;
    auto const memory = other_device.allocate<float>(64);
    return other_device.bytes();
  }();
  for (int step = 0; step < 3; ++step) {
    for (int leaf = 0; leaf < 7; ++leaf) {
      (void)gradient_trees.begin_leaf(&unit, 0, 64, device);
      gradient_trees.end_leaf(&unit, 0, compute);
    }
    (void)gradient_trees.finish(&unit, 0, 1, compute);
    compute.synchronize();
    CHECK(device.bytes() == 3 * bytes_per_buffer);
  }
}

}  // namespace gradient_trees_test
