// The bodies of the kernels of layer_norm and rms_norm on the host, against the reference loops.
// (The gradient of the weight has its own test: norm_weight_gradient_test.)
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <parallel/ops/cuda/kernels/norm/norm.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_norm_test {

using namespace parallel;
using parallel::index;

/// The kernels of a norm of rows of T.
template <class T, bool Centred>
struct kernels_of {
  using element = T;
  using sum = accumulate_t<T>;
  using forward = cuda::kernels::norm<T, Centred>;
  using backward_input = cuda::kernels::norm_backward_input<T, Centred>;
  static constexpr bool centred = Centred;
  static constexpr std::size_t shared_bytes = (Centred ? 64 : 32) * sizeof(sum);
};
template <class T>
using layer_norm = kernels_of<T, true>;
template <class T>
using rms_norm = kernels_of<T, false>;

TEST_CASE_TEMPLATE("norm kernel: equals the reference for every shape and in place", Kernels,
                   layer_norm<float>, layer_norm<bf16>, layer_norm<double>, rms_norm<float>,
                   rms_norm<bf16>, rms_norm<double>) {
  using T = typename Kernels::element;
  using A = typename Kernels::sum;
  for (testing::row_shape const s : testing::row_shapes)
    for (bool const plain : {false, true}) {  // without bias and statistics
      auto const d = static_cast<std::size_t>(s.columns);
      auto const rows = static_cast<std::size_t>(s.rows);
      testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 5.0F), s};
      auto weight = testing::normal_numbers<T>(d, 2);
      auto bias = testing::normal_numbers<T>(plain ? 0 : d, 3);
      testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
      std::vector<A> rstd(plain ? 0 : rows), mean(Kernels::centred ? rstd.size() : 0);
      reference::stream ref_stream;
      if constexpr (Kernels::centred)
        ops::layer_norm(ref_stream, expected.view(), testing::view_of(mean), testing::view_of(rstd),
                        x.view(), testing::view_of(weight), testing::view_of(bias), {.eps = 1e-3});
      else
        ops::rms_norm(ref_stream, expected.view(), testing::view_of(rstd), x.view(),
                      testing::view_of(weight), {.eps = 1e-3});

      testing::rows_of<T> y{testing::poison<T>(testing::extent(s)), s};
      auto means = testing::poison<A>(mean.size());
      auto rstds = testing::poison<A>(rstd.size());
      bool const adds = Kernels::centred && !plain;
      typename Kernels::forward const body{y.view(),
                                           x.view(),
                                           weight.data(),
                                           adds ? bias.data() : nullptr,
                                           adds ? means.data() : nullptr,
                                           plain ? nullptr : rstds.data(),
                                           A(1e-3)};
      auto const blocks = static_cast<unsigned>(s.rows);
      for (unsigned const threads : {32U, 64U})
        testing::run_in_every_order(blocks, threads, Kernels::shared_bytes, body, [&](auto) {
          testing::check_close(y.data, expected.data, testing::norm_tolerance<T>);
          testing::check_close(means, mean, 1e-5);
          testing::check_close(rstds, rstd, 1e-5);
          std::ranges::fill(y.data, T(-77.0F));
        });

      auto in_place = x;
      auto in_place_body = body;
      in_place_body.y = in_place.view();
      in_place_body.x = in_place.view();
      testing::host_block::run_grid(blocks, 32, Kernels::shared_bytes,
                                    testing::thread_order::shuffled, in_place_body);
      for (index m = 0; m < s.rows; ++m)
        for (index n = 0; n < s.columns; ++n)
          CHECK(static_cast<double>(in_place.view().row(m)[n]) ==
                doctest::Approx(static_cast<double>(expected.view().row(m)[n]))
                    .epsilon(testing::norm_tolerance<T>));
    }
}

TEST_CASE("layer_norm kernel: numbers far from zero keep an exact variance") {
  index const d = 320;
  std::vector<float> x(320), y(320), weight(320, 1.0F), rstd(1), mean(1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 4096.0F + static_cast<float>(i % 2);
  ops::rows_view<float> const in(x.data(), 1, d, d);
  ops::rows_view<float> const out(y.data(), 1, d, d);
  testing::run_in_every_order(1, 32, 256,
                              cuda::kernels::norm<float, true>{out, in, weight.data(), nullptr,
                                                               mean.data(), rstd.data(), 0.0F},
                              [&](auto) {
                                CHECK(mean[0] == 4096.5F);
                                CHECK(rstd[0] == 2.0F);
                                CHECK(y[0] == -1.0F);
                                CHECK(y[319] == 1.0F);
                              });
}

/// The operands of a gradient of a norm's input, and the result of the reference.
template <class Kernels>
struct gradient_problem {
  using T = typename Kernels::element;
  using A = typename Kernels::sum;
  testing::row_shape shape;
  testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(shape), 1, 2.0F, 1.0F), shape};
  testing::rows_of<T> dy{testing::normal_numbers<T>(testing::extent(shape), 2), shape};
  std::vector<T> weight = testing::normal_numbers<T>(static_cast<std::size_t>(shape.columns), 3);
  std::vector<A> rstd = std::vector<A>(static_cast<std::size_t>(shape.rows));
  std::vector<A> mean = std::vector<A>(Kernels::centred ? rstd.size() : 0);
  testing::rows_of<T> expected{testing::poison<T>(testing::extent(shape)), shape};
  testing::rows_of<T> dx{testing::poison<T>(testing::extent(shape)), shape};

  gradient_problem(testing::row_shape s, ops::rows_view<T const> addend) : shape(s) {
    reference::stream ref_stream;
    auto const weights = testing::view_of(weight);
    auto const rstds = testing::view_of(rstd);
    if constexpr (Kernels::centred) {
      ops::layer_norm(ref_stream, expected.view(), testing::view_of(mean), rstds, x.view(), weights,
                      vector_view<T const>());
      ops::layer_norm_backward_input(ref_stream, expected.view(), dy.view(), x.view(), weights,
                                     testing::view_of(mean), rstds, addend);
    } else {
      ops::rms_norm(ref_stream, expected.view(), rstds, x.view(), weights);
      ops::rms_norm_backward_input(ref_stream, expected.view(), dy.view(), x.view(), weights, rstds,
                                   addend);
    }
  }

  /// Runs the kernel in every order of threads; `addend` may have no rows.
  typename Kernels::backward_input check(ops::rows_view<T const> addend) {
    typename Kernels::backward_input const body{dx.view(),   dy.view(),   x.view(), weight.data(),
                                                mean.data(), rstd.data(), addend};
    testing::run_in_every_order(
        static_cast<unsigned>(shape.rows), 32, Kernels::shared_bytes, body, [&](auto) {
          testing::check_close(dx.data, expected.data, testing::norm_tolerance<T>);
          std::ranges::fill(dx.data, T(-77.0F));
        });
    return body;
  }
};

TEST_CASE_TEMPLATE("norm_backward_input kernel: equals the reference, also in place", Kernels,
                   layer_norm<float>, layer_norm<bf16>, layer_norm<double>, rms_norm<float>,
                   rms_norm<bf16>, rms_norm<double>) {
  using T = typename Kernels::element;
  for (testing::row_shape const s : testing::row_shapes) {
    gradient_problem<Kernels> problem(s, {});
    auto body = problem.check({});
    auto in_place = problem.dy;
    body.dx = in_place.view();
    body.dy = in_place.view();
    testing::host_block::run_grid(static_cast<unsigned>(s.rows), 64, Kernels::shared_bytes,
                                  testing::thread_order::descending, body);
    for (index m = 0; m < s.rows; ++m)
      for (index n = 0; n < s.columns; ++n)
        CHECK(std::abs(static_cast<double>(in_place.view().row(m)[n]) -
                       static_cast<double>(problem.expected.view().row(m)[n])) <
              testing::norm_tolerance<T> *
                  (1.0 + std::abs(static_cast<double>(problem.expected.view().row(m)[n]))));
  }
}

TEST_CASE_TEMPLATE("norm_backward_input kernel: the addend is added before the one rounding",
                   Kernels, layer_norm<float>, layer_norm<bf16>, layer_norm<double>,
                   rms_norm<float>, rms_norm<bf16>, rms_norm<double>) {
  using T = typename Kernels::element;
  for (testing::row_shape const s : testing::row_shapes) {
    testing::rows_of<T> addend{testing::normal_numbers<T>(testing::extent(s), 4, 8.0F), s};
    gradient_problem<Kernels>(s, addend.view()).check(addend.view());
  }
}

}  // namespace cuda_norm_test
