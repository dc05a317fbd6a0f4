// The body of the lion kernel on the host, against the reference loop, bit for bit.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/update/lion.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_lion_test {

using namespace parallel;
using ops_support::same_bits;
using parallel::index;
using testing::guarded;

/// Arrays of one update; in the gradients are a 0 and a NaN.
template <class T, class A = accumulate_t<T>>
struct arrays {
  std::vector<A> master, exp_avg, gradients;
  std::vector<T> values;

  explicit arrays(index count)
      : master(ops_support::random<A>(count, 1)),
        exp_avg(ops_support::random<A>(count, 2)),
        gradients(ops_support::random<A>(count, 4)),
        values(ops_support::random<T>(count, 5)) {
    if (count > 2) {
      gradients[0] = exp_avg[0] = A(0);
      gradients[2] = std::numeric_limits<A>::quiet_NaN();
    }
  }
};

TEST_CASE_TEMPLATE("lion kernel: a step equals the reference at any alignment", T, float, bf16,
                   double) {
  using A = accumulate_t<T>;
  A const scale = A(0.37);
  for (index const count : {0, 1, 3, 8, 37, 1000})
    for (A const* gradient_scale : {static_cast<A const*>(nullptr), &scale}) {
      ops::lion_options<A> const options{
          .lr = 3e-3, .initial_lr = 1e-2, .weight_decay = 0.1, .gradient_scale = gradient_scale};
      arrays<T> const initial(count);
      auto expected = initial;
      reference::stream ref_stream;
      ops::lion(ref_stream, std::span(expected.values), std::span(expected.master),
                std::span(expected.exp_avg), std::span<A const>(expected.gradients), options);

      for (std::size_t const misaligned : {0, 1}) {
        guarded<A> gradients(initial.gradients, misaligned);
        for (auto const order :
             {testing::thread_order::ascending, testing::thread_order::descending,
              testing::thread_order::shuffled}) {
          guarded<T> values(initial.values, misaligned);
          guarded<A> master(initial.master, 0), exp_avg(initial.exp_avg, 0);
          testing::host_block::run_grid(
              2, 64, 0, order,
              cuda::kernels::lion<T>{values.data(), master.data(), exp_avg.data(), gradients.data(),
                                     gradient_scale, ops::detail::lion_factors<A>(options),
                                     static_cast<std::size_t>(count)});
          CHECK(same_bits(values.values(), expected.values));
          CHECK(same_bits(master.values(), expected.master));
          CHECK(same_bits(exp_avg.values(), expected.exp_avg));
          CHECK((values.intact() && master.intact() && exp_avg.intact()));
        }
      }
    }
}

TEST_CASE("lion kernel: values may be the masters themselves") {
  arrays<float> const initial(100);
  auto expected = initial;
  reference::stream ref_stream;
  ops::lion_options<float> const options{.weight_decay = 0.1};
  ops::lion(ref_stream, std::span(expected.master), std::span(expected.master),
            std::span(expected.exp_avg), std::span<float const>(expected.gradients), options);
  testing::run_on_copies(
      initial.master, 2, 64, 0,
      [&, copy = initial](float* p) mutable {
        copy = initial;
        return cuda::kernels::lion<float>{p,
                                          p,
                                          copy.exp_avg.data(),
                                          copy.gradients.data(),
                                          nullptr,
                                          ops::detail::lion_factors<float>(options),
                                          100};
      },
      [&](auto const& p) { CHECK(same_bits(p, expected.master)); });
}

}  // namespace cuda_lion_test
