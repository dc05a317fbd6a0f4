// The body of the dropout kernel on the host, against the reference loop, bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/dropout.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_dropout_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE(
    "dropout kernel: drops the same elements as the reference, at any beginning of the array", T,
    float, bf16, double) {
  for (index const count : {0, 1, 3, 8, 37, 1000})
    for (std::uint64_t const first_element :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6}, std::uint64_t{1} << 35})
      for (auto const& [probability, columns] :
           {std::pair{0.0F, 0U}, {0.25F, 0U}, {0.25F, 8U}, {0.25F, 13U}, {1.0F, 0U}}) {
        ops::dropout_options const options{.probability = probability,
                                           .random = philox(7, stream_id("dropout"), 3),
                                           .first_element = first_element,
                                           .columns = columns,
                                           .whole_columns = 3 * columns};
        auto const x = ops_support::random<T>(count, 1);
        testing::compare_kernel(
            {},
            [&](auto& s, auto apart, auto in_place, auto from) {
              ops::dropout(s, apart, from, options);
              ops::dropout(s, in_place, in_place, options);
            },
            ops_support::random<T>(count, 2), x, x);
      }
}

TEST_CASE("dropout kernel: probability 1/4 drops a quarter of the elements") {
  std::vector<float> x(10000, 3.0F);
  testing::host_block::run_grid(
      4, 64, 0, testing::thread_order::ascending,
      cuda::kernels::dropout<float>{x.data(), x.data(), x.size(), {.probability = 0.25F}});
  auto const dropped = std::ranges::count(x, 0.0F);
  CHECK(std::abs(static_cast<double>(dropped) - 2500.0) < 5 * 43.3);  // 5 standard deviations
  CHECK(std::ranges::count(x, 4.0F) == 10000 - dropped);
}

}  // namespace cuda_dropout_test
