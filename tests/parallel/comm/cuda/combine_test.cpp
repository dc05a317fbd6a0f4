// The kernel that combines the values of ranks, run on the host: it has the bits of other backends.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <parallel/comm/cuda/combine.hpp>
#include <parallel/comm/detail/combine.hpp>

#include "support/devices/host_block.hpp"

namespace combine_kernel_test {

using namespace parallel;

TEST_CASE_TEMPLATE(
    "combine kernel: any number of ranks is combined to the same bits as on the host", T, float,
    bf16, double, std::int32_t, std::uint64_t) {
  constexpr std::size_t count = 67;
  for (int const ranks : {1, 2, 3, 4, 5, 7, 8, 13, 128, 300, 2048})
    for (auto const op : {reduction::sum, reduction::max, reduction::min, reduction::tree_sum}) {
      std::vector<std::vector<T>> in(static_cast<std::size_t>(ranks), std::vector<T>(count));
      for (std::size_t r = 0; r < in.size(); ++r)
        for (std::size_t i = 0; i < count; ++i)
          in[r][i] = T(static_cast<float>((r * 7919 + i * 104729) % 1009) / 3.0F - 100.0F);
      if constexpr (!std::is_integral_v<T>) in.back()[5] = T(std::nanf(""));
      std::vector<T> expected(count), first(count), second(count);
      std::vector<void const*> sources;
      cuda::kernels::combine<T, 2048> body{};
      body.outs[0] = first.data();
      body.outs[1] = second.data();
      body.num_outs = 2;
      body.num_sources = ranks;
      for (std::size_t r = 0; r < in.size(); ++r) {
        sources.push_back(in[r].data());
        body.sources[r] = in[r].data();
      }
      body.op = op;
      body.count = count;
      void* const out = expected.data();
      detail::combine(dtype_of<T>, op, {&out, 1}, sources, count);
      testing::run_in_every_order(2, 32, 0, body, [&](auto) {
        CHECK(std::memcmp(first.data(), expected.data(), count * sizeof(T)) == 0);
        CHECK(std::memcmp(second.data(), expected.data(), count * sizeof(T)) == 0);
      });
    }
}

TEST_CASE("combine kernel: bf16 values are summed to floats without rounding") {
  constexpr std::size_t count = 67;
  for (int const ranks : {1, 3, 8}) {
    std::vector<std::vector<bf16>> in(static_cast<std::size_t>(ranks), std::vector<bf16>(count));
    std::vector<float> expected(count), host(count), kernel(count);
    for (std::size_t r = 0; r < in.size(); ++r)
      for (std::size_t i = 0; i < count; ++i) {
        in[r][i] = bf16(static_cast<float>((r * 7919 + i * 104729) % 1009) / 3.0F - 100.0F);
        expected[i] = r == 0 ? float(in[r][i]) : expected[i] + float(in[r][i]);
      }
    std::vector<void const*> sources;
    cuda::kernels::combine<bf16> body{};
    for (std::size_t r = 0; r < in.size(); ++r) {
      sources.push_back(in[r].data());
      body.sources[r] = in[r].data();
    }
    body.outs[0] = kernel.data();
    body.num_outs = 1;
    body.num_sources = ranks;
    body.op = reduction::wide_sum;
    body.count = count;
    void* const out = host.data();
    detail::combine(dtype::bf16, reduction::wide_sum, {&out, 1}, sources, count);
    CHECK(host == expected);
    testing::run_in_every_order(2, 32, 0, body, [&](auto) { CHECK(kernel == expected); });
  }
}

}  // namespace combine_kernel_test
