// Every operation of the CUDA backend against the reference in double: new random numbers each
// time, poisoned outputs, marks around every array.
#include <cstdint>

#include <doctest/doctest.h>

#include <parallel/ops/cuda.hpp>

#include "support/device_laws.hpp"
#include "support/gpu.hpp"

namespace gpu_operations_test {

using parallel::bf16;

TEST_CASE_TEMPLATE("operations on elements", T, float, bf16, std::uint64_t) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_element_operations<T>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("operations on rows, matrices and tables", T, float, bf16, std::uint64_t) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_row_operations<T>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("attention", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_attention_operations<T>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("the same operation gives the same bits again", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  auto const sums = [&] {
    test::both_sides<parallel::cuda::device> both(device, seed, 0);
    auto dy = both.random<T>(4096 * 768), x = both.random<T>(4096 * 768);
    auto gradient = both.of(std::vector<float>(768)), bias = both.of(std::vector<float>(768));
    auto mean = both.random<float>(4096), rstd = both.random<float>(4096);
    auto ids = both.random_ids(4096, 50);
    auto table = both.of(std::vector<float>(50 * 768));
    both.run_on_device([&](auto& s) {
      parallel::ops::layer_norm_backward_weight(
          s, test::as_vector(s, gradient), test::as_vector(s, bias),
          test::as_matrix(s, dy, 4096, 768), test::as_matrix(s, x, 4096, 768),
          test::as_vector(s, mean), test::as_vector(s, rstd));
      parallel::ops::embedding_backward(s, test::as_matrix(s, table, 50, 768),
                                        test::as_matrix(s, dy, 4096, 768), test::as_vector(s, ids));
    });
    auto all = gradient.values();
    for (auto const& more : {bias.values(), table.values()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  auto const first = sums();
  for (int again = 0; again < 5; ++again) CHECK(ops_support::same_bits(sums(), first));
}

}  // namespace gpu_operations_test
