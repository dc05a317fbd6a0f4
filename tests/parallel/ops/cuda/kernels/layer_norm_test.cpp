// The bodies of layer_norm's kernels on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include <parallel/ops/cuda/kernels/layer_norm.hpp>
#include <parallel/ops/layer_norm.hpp>
#include <parallel/ops/reference.hpp>

#include "support/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_layer_norm_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE("layer_norm kernel: it equals the reference for every shape and in place", T,
                   float, bf16, double) {
  using A = accumulate_t<T>;
  for (testing::row_shape const s : testing::row_shapes)
    for (bool const plain : {false, true}) {  // without bias and statistics
      auto const d = static_cast<std::size_t>(s.columns);
      auto const rows = static_cast<std::size_t>(s.rows);
      testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 5.0F), s};
      auto weight = testing::normal_numbers<T>(d, 2);
      auto bias = testing::normal_numbers<T>(plain ? 0 : d, 3);
      testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
      std::vector<A> mean(plain ? 0 : rows), rstd(mean.size());
      reference::stream ref_stream;
      ops::layer_norm(ref_stream, expected.view(), testing::view_of(mean), testing::view_of(rstd),
                      x.view(), testing::view_of(weight), testing::view_of(bias), {.eps = 1e-3});

      testing::rows_of<T> y{testing::poison<T>(testing::extent(s)), s};
      auto means = testing::poison<A>(mean.size());
      auto rstds = means;
      cuda::kernels::layer_norm<T> const body{y.view(),
                                              x.view(),
                                              weight.data(),
                                              plain ? nullptr : bias.data(),
                                              plain ? nullptr : means.data(),
                                              rstds.data(),
                                              A(1e-3)};
      auto const blocks = static_cast<unsigned>(s.rows);
      for (unsigned const threads : {32U, 64U})
        testing::run_in_every_order(blocks, threads, 64 * sizeof(A), body, [&](auto) {
          testing::check_close(y.data, expected.data, testing::norm_tolerance<T>);
          testing::check_close(means, mean, 1e-5);
          testing::check_close(rstds, rstd, 1e-5);
          std::ranges::fill(y.data, T(-77.0F));
        });

      auto in_place = x;
      auto in_place_body = body;
      in_place_body.y = in_place.view();
      in_place_body.x = in_place.view();
      testing::host_block::run_grid(blocks, 32, 64 * sizeof(A), testing::thread_order::shuffled,
                                    in_place_body);
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
                              cuda::kernels::layer_norm<float>{out, in, weight.data(), nullptr,
                                                               mean.data(), rstd.data(), 0.0F},
                              [&](auto) {
                                CHECK(mean[0] == 4096.5F);
                                CHECK(rstd[0] == 2.0F);
                                CHECK(y[0] == -1.0F);
                                CHECK(y[319] == 1.0F);
                              });
}

TEST_CASE_TEMPLATE("layer_norm_backward_input kernel: it equals the reference, also in place", T,
                   float, bf16, double) {
  using A = accumulate_t<T>;
  for (testing::row_shape const s : testing::row_shapes) {
    auto const d = static_cast<std::size_t>(s.columns);
    auto const rows = static_cast<std::size_t>(s.rows);
    testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 1.0F), s};
    testing::rows_of<T> dy{testing::normal_numbers<T>(testing::extent(s), 2), s};
    auto weight = testing::normal_numbers<T>(d, 3);
    std::vector<A> mean(rows), rstd(rows);
    testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
    reference::stream ref_stream;
    ops::layer_norm(ref_stream, expected.view(), testing::view_of(mean), testing::view_of(rstd),
                    x.view(), testing::view_of(weight), vector_view<T const>());
    ops::layer_norm_backward_input(ref_stream, expected.view(), dy.view(), x.view(),
                                   testing::view_of(weight), testing::view_of(mean),
                                   testing::view_of(rstd));
    testing::rows_of<T> dx{testing::poison<T>(testing::extent(s)), s};
    cuda::kernels::layer_norm_backward_input<T> body{
        dx.view(), dy.view(), x.view(), weight.data(), mean.data(), rstd.data(), {}};
    auto const blocks = static_cast<unsigned>(s.rows);
    testing::run_in_every_order(blocks, 32, 64 * sizeof(A), body, [&](auto) {
      testing::check_close(dx.data, expected.data, testing::norm_tolerance<T>);
      std::ranges::fill(dx.data, T(-77.0F));
    });
    auto in_place = dy;
    body.dx = in_place.view();
    body.dy = in_place.view();
    testing::host_block::run_grid(blocks, 64, 64 * sizeof(A), testing::thread_order::descending,
                                  body);
    for (index m = 0; m < s.rows; ++m)
      for (index n = 0; n < s.columns; ++n)
        CHECK(std::abs(static_cast<double>(in_place.view().row(m)[n]) -
                       static_cast<double>(expected.view().row(m)[n])) <
              testing::norm_tolerance<T> *
                  (1.0 + std::abs(static_cast<double>(expected.view().row(m)[n]))));
  }
}

TEST_CASE_TEMPLATE("layer_norm_backward_input kernel: the addend is added before the one rounding",
                   T, float, bf16, double) {
  using A = accumulate_t<T>;
  for (testing::row_shape const s : testing::row_shapes) {
    auto const d = static_cast<std::size_t>(s.columns);
    auto const rows = static_cast<std::size_t>(s.rows);
    testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 1.0F), s};
    testing::rows_of<T> dy{testing::normal_numbers<T>(testing::extent(s), 2), s};
    testing::rows_of<T> addend{testing::normal_numbers<T>(testing::extent(s), 4, 8.0F), s};
    auto weight = testing::normal_numbers<T>(d, 3);
    std::vector<A> mean(rows), rstd(rows);
    testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
    reference::stream ref_stream;
    ops::layer_norm(ref_stream, expected.view(), testing::view_of(mean), testing::view_of(rstd),
                    x.view(), testing::view_of(weight), vector_view<T const>());
    ops::layer_norm_backward_input(ref_stream, expected.view(), dy.view(), x.view(),
                                   testing::view_of(weight), testing::view_of(mean),
                                   testing::view_of(rstd), addend.view());
    testing::rows_of<T> dx{testing::poison<T>(testing::extent(s)), s};
    cuda::kernels::layer_norm_backward_input<T> const body{
        dx.view(), dy.view(), x.view(), weight.data(), mean.data(), rstd.data(), addend.view()};
    testing::run_in_every_order(static_cast<unsigned>(s.rows), 32, 64 * sizeof(A), body, [&](auto) {
      testing::check_close(dx.data, expected.data, testing::norm_tolerance<T>);
      std::ranges::fill(dx.data, T(-77.0F));
    });
  }
}

}  // namespace cuda_layer_norm_test
