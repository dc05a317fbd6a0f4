// The body of the adamw kernel on the host, against the reference loop, bit for bit.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/update/adamw.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_adamw_test {

using namespace parallel;
using ops_support::same_bits;
using parallel::index;
using testing::guarded;

/// Arrays of one update; the gradients contain a 0 and a NaN.
template <class T, class A = accumulate_t<T>>
struct arrays {
  std::vector<A> master, exp_avg, exp_avg_sq, gradients;
  std::vector<T> values;

  explicit arrays(index count)
      : master(ops_support::random<A>(count, 1)),
        exp_avg(ops_support::random<A>(count, 2)),
        exp_avg_sq(ops_support::random<A>(count, 3)),
        gradients(ops_support::random<A>(count, 4)),
        values(ops_support::random<T>(count, 5)) {
    for (A& v : exp_avg_sq) v *= v;
    if (count > 2) {
      gradients[0] = exp_avg[0] = A(0);
      gradients[2] = std::numeric_limits<A>::quiet_NaN();
    }
  }
};

TEST_CASE_TEMPLATE("adamw kernel: a step equals the reference at any alignment", T, float, bf16,
                   double) {
  using A = accumulate_t<T>;
  A const scale = A(0.37);
  for (index const count : {0, 1, 3, 8, 37, 1000})
    for (A const* gradient_scale : {static_cast<A const*>(nullptr), &scale}) {
      ops::adamw_options<A> const options{.lr = 3e-3,
                                          .initial_lr = 1e-2,
                                          .weight_decay = 0.1,
                                          .step = 3,
                                          .gradient_scale = gradient_scale};
      arrays<T> const initial(count);
      auto expected = initial;
      reference::stream ref_stream;
      ops::adamw(ref_stream, std::span(expected.values), std::span(expected.master),
                 std::span(expected.exp_avg), std::span(expected.exp_avg_sq),
                 std::span<A const>(expected.gradients), options);

      for (std::size_t const misaligned : {0, 1}) {
        guarded<A> gradients(initial.gradients, misaligned);
        for (auto const order :
             {testing::thread_order::ascending, testing::thread_order::descending,
              testing::thread_order::shuffled}) {
          guarded<T> values(initial.values, misaligned);
          guarded<A> master(initial.master, 0), exp_avg(initial.exp_avg, 0),
              exp_avg_sq(initial.exp_avg_sq, 0);
          testing::host_block::run_grid(
              2, 64, 0, order,
              cuda::kernels::adamw<T>{values.data(), master.data(), exp_avg.data(),
                                      exp_avg_sq.data(), gradients.data(), gradient_scale,
                                      ops::detail::adamw_factors<A>(options),
                                      static_cast<std::size_t>(count)});
          CHECK(same_bits(values.values(), expected.values));
          CHECK(same_bits(master.values(), expected.master));
          CHECK(same_bits(exp_avg.values(), expected.exp_avg));
          CHECK(same_bits(exp_avg_sq.values(), expected.exp_avg_sq));
          CHECK((values.intact() && master.intact() && exp_avg.intact() && exp_avg_sq.intact()));
        }
      }
    }
}

TEST_CASE("adamw kernel: values may be the masters themselves") {
  arrays<float> const initial(100);
  auto expected = initial;
  reference::stream ref_stream;
  ops::adamw_options<float> const options{.weight_decay = 0.1};
  ops::adamw(ref_stream, std::span(expected.master), std::span(expected.master),
             std::span(expected.exp_avg), std::span(expected.exp_avg_sq),
             std::span<float const>(expected.gradients), options);
  testing::run_on_copies(
      initial.master, 2, 64, 0,
      [&, copy = initial](float* p) mutable {
        copy = initial;
        return cuda::kernels::adamw<float>{p,
                                           p,
                                           copy.exp_avg.data(),
                                           copy.exp_avg_sq.data(),
                                           copy.gradients.data(),
                                           nullptr,
                                           ops::detail::adamw_factors<float>(options),
                                           100};
      },
      [&](auto const& p) { CHECK(same_bits(p, expected.master)); });
}

}  // namespace cuda_adamw_test
