// The body of the rope kernel on the host, against the reference loop, bit for bit.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include <parallel/ops/cuda/kernels/attention/rope.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_rope_test {

using namespace parallel;
using parallel::index;

struct shape {
  index batch, sequence, heads, head_dim, stride;
  index rotary_dim = head_dim;
};

TEST_CASE_TEMPLATE(
    "rope kernel: heads are rotated as in the reference, and elements between rows are unchanged",
    T, float, bf16, double) {
  for (auto const [batch, sequence, heads, head_dim, stride, rotary_dim] :
       {shape{0, 3, 2, 8, 16}, shape{2, 3, 1, 2, 2}, shape{1, 4, 3, 6, 20}, shape{2, 3, 5, 16, 96},
        shape{2, 3, 5, 16, 81}, shape{1, 2, 3, 24, 72}, shape{2, 3, 5, 16, 96, 8},
        shape{1, 4, 3, 7, 21, 4}, shape{1, 2, 3, 18, 54, 16}})
    for (auto const& [turn, growth] :
         {std::pair{1.0, 0.0}, std::pair{-1.0, 0.0}, std::pair{1.0, -1.0}, std::pair{-1.0, 1.0}}) {
      double const direction = turn, growth_sign = growth;
      index const batch_stride = sequence * stride + (direction > 0 ? 16 : 17);
      auto const initial = ops_support::random<T>(batch * batch_stride + heads * head_dim, 1);
      auto const frequencies = ops::rope_frequencies(10000.0, rotary_dim);
      auto const pairs = static_cast<unsigned>(rotary_dim / 2);
      auto const view = [=, batch = batch, sequence = sequence, heads = heads, head_dim = head_dim,
                         stride = stride](T* data) {
        return ops::heads_view<T>{data, batch, sequence, heads, head_dim, batch_stride, stride};
      };
      constexpr index first = 99990, origin = 99900;
      std::vector<double> growths;  // only some cases have growths
      if (growth_sign != 0.0)
        for (unsigned i = 0; i < pairs; ++i) growths.push_back(-0.01 * static_cast<double>(i));
      auto const* const growths_or_null = growths.empty() ? nullptr : growths.data();
      auto expected = initial;
      ops::compute(ops::rope_arguments<T>{view(expected.data()),
                                          {.frequencies = frequencies,
                                           .first = first,
                                           .growths = growths,
                                           .origin = origin,
                                           .growth_sign = growth_sign},
                                          direction});
      // 3 blocks: some rotate several rows, and must synchronise before they compute the next
      // angles
      testing::run_on_copies(
          initial, 3, 64, static_cast<std::size_t>(rotary_dim) * sizeof(accumulate_t<T>),
          [&](T* x) {
            return cuda::kernels::rope<T>{view(x),   frequencies.data(), pairs,  first,
                                          direction, growths_or_null,    origin, growth_sign};
          },
          [&](auto const& x) { CHECK(ops_support::same_bits(x, expected)); });
    }
}

}  // namespace cuda_rope_test
