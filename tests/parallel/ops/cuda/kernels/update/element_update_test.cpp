// The bodies of the adamw and lion kernels on the host, against the reference loops, bit for bit.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/update/element_update.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_element_update_test {

using namespace parallel;
using parallel::index;

/// One update by each optimizer, of its own arrays; in the gradients are a 0 and a NaN.
template <class T>
void compare_updates(index count, accumulate_t<T> const* gradient_scale) {
  using A = accumulate_t<T>;
  using ops_support::random;
  auto exp_avg = random<A>(count, 2), exp_avg_sq = random<A>(count, 3),
       gradients = random<A>(count, 4);
  for (A& v : exp_avg_sq) v *= v;
  if (count > 2) {
    gradients[0] = exp_avg[0] = A(0);
    gradients[2] = std::numeric_limits<A>::quiet_NaN();
  }
  testing::compare_kernel(
      {},
      [&](auto& s, auto values, auto master, auto m, auto v, auto g) {
        ops::adamw(s, values, master, m, v, g,
                   {.lr = 3e-3,
                    .initial_lr = 1e-2,
                    .weight_decay = 0.1,
                    .step = 3,
                    .gradient_scale = gradient_scale});
      },
      random<T>(count, 5), random<A>(count, 1), exp_avg, exp_avg_sq, gradients);
  testing::compare_kernel(
      {},
      [&](auto& s, auto values, auto master, auto m, auto g) {
        ops::lion(s, values, master, m, g,
                  {.lr = 3e-3,
                   .initial_lr = 1e-2,
                   .weight_decay = 0.1,
                   .gradient_scale = gradient_scale});
      },
      random<T>(count, 5), random<A>(count, 1), exp_avg, gradients);
}

TEST_CASE_TEMPLATE("adamw and lion kernels: a step equals the reference at any alignment", T, float,
                   bf16, double) {
  auto const scale = static_cast<accumulate_t<T>>(0.37);
  for (index const count : {0, 1, 3, 8, 37, 1000}) {
    compare_updates<T>(count, nullptr);
    compare_updates<T>(count, &scale);
  }
}

TEST_CASE("adamw and lion kernels: values may be the masters themselves") {
  auto const numbers = ops_support::random<float>(100, 1);
  testing::compare_kernel(
      {},
      [](auto& s, auto p, auto q, auto m, auto v, auto g) {
        ops::adamw(s, p, p, m, v, g, {.weight_decay = 0.1});
        ops::lion(s, q, q, m, g, {.weight_decay = 0.1});
      },
      numbers, numbers, std::vector<float>(100), std::vector<float>(100), numbers);
}

}  // namespace cuda_element_update_test
