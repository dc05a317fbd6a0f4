// The bodies of rms_norm's kernels on the host, against the reference loops. (The gradient of the
// weight uses the kernels of layer_norm: norm_weight_gradient_test.)
#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include <parallel/ops/cuda/kernels/rms_norm.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/ops/rms_norm.hpp>

#include "support/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_rms_norm_test {

using namespace parallel;

TEST_CASE_TEMPLATE("rms_norm kernel: it equals the reference for every shape and in place", T,
                   float, bf16, double) {
  using A = accumulate_t<T>;
  for (testing::row_shape const s : testing::row_shapes)
    for (bool const plain : {false, true}) {  // without statistics
      auto const d = static_cast<std::size_t>(s.columns);
      auto const rows = static_cast<std::size_t>(s.rows);
      testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 5.0F), s};
      auto weight = testing::normal_numbers<T>(d, 2);
      testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
      std::vector<A> rstd(plain ? 0 : rows);
      reference::stream ref_stream;
      ops::rms_norm(ref_stream, expected.view(), testing::view_of(rstd), x.view(),
                    testing::view_of(weight), {.eps = 1e-3});

      testing::rows_of<T> y{testing::poison<T>(testing::extent(s)), s};
      auto rstds = testing::poison<A>(rstd.size());
      cuda::kernels::rms_norm<T> const body{y.view(), x.view(), weight.data(),
                                            plain ? nullptr : rstds.data(), A(1e-3)};
      auto const blocks = static_cast<unsigned>(s.rows);
      for (unsigned const threads : {32U, 64U})
        testing::run_in_every_order(blocks, threads, 32 * sizeof(A), body, [&](auto) {
          testing::check_close(y.data, expected.data, testing::norm_tolerance<T>);
          testing::check_close(rstds, rstd, 1e-5);
          std::ranges::fill(y.data, T(-77.0F));
        });

      auto in_place = x;
      auto in_place_body = body;
      in_place_body.y = in_place.view();
      in_place_body.x = in_place.view();
      testing::host_block::run_grid(blocks, 32, 32 * sizeof(A), testing::thread_order::shuffled,
                                    in_place_body);
      for (parallel::index m = 0; m < s.rows; ++m)
        for (parallel::index n = 0; n < s.columns; ++n)
          CHECK(static_cast<double>(in_place.view().row(m)[n]) ==
                doctest::Approx(static_cast<double>(expected.view().row(m)[n]))
                    .epsilon(testing::norm_tolerance<T>));
    }
}

TEST_CASE_TEMPLATE("rms_norm_backward_input kernel: it equals the reference, also in place", T,
                   float, bf16, double) {
  using A = accumulate_t<T>;
  for (testing::row_shape const s : testing::row_shapes) {
    auto const d = static_cast<std::size_t>(s.columns);
    auto const rows = static_cast<std::size_t>(s.rows);
    testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 1.0F), s};
    testing::rows_of<T> dy{testing::normal_numbers<T>(testing::extent(s), 2), s};
    auto weight = testing::normal_numbers<T>(d, 3);
    std::vector<A> rstd(rows);
    testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
    reference::stream ref_stream;
    ops::rms_norm(ref_stream, expected.view(), testing::view_of(rstd), x.view(),
                  testing::view_of(weight));
    ops::rms_norm_backward_input(ref_stream, expected.view(), dy.view(), x.view(),
                                 testing::view_of(weight), testing::view_of(rstd));
    testing::rows_of<T> dx{testing::poison<T>(testing::extent(s)), s};
    cuda::kernels::rms_norm_backward_input<T> body{dx.view(),     dy.view(),   x.view(),
                                                   weight.data(), rstd.data(), {}};
    auto const blocks = static_cast<unsigned>(s.rows);
    testing::run_in_every_order(blocks, 32, 32 * sizeof(A), body, [&](auto) {
      testing::check_close(dx.data, expected.data, testing::norm_tolerance<T>);
      std::ranges::fill(dx.data, T(-77.0F));
    });
    auto in_place = dy;
    body.dx = in_place.view();
    body.dy = in_place.view();
    testing::host_block::run_grid(blocks, 64, 32 * sizeof(A), testing::thread_order::descending,
                                  body);
    for (parallel::index m = 0; m < s.rows; ++m)
      for (parallel::index n = 0; n < s.columns; ++n)
        CHECK(std::abs(static_cast<double>(in_place.view().row(m)[n]) -
                       static_cast<double>(expected.view().row(m)[n])) <
              testing::norm_tolerance<T> *
                  (1.0 + std::abs(static_cast<double>(expected.view().row(m)[n]))));
  }
}

TEST_CASE_TEMPLATE("rms_norm_backward_input kernel: the addend is added before the one rounding", T,
                   float, bf16, double) {
  using A = accumulate_t<T>;
  for (testing::row_shape const s : testing::row_shapes) {
    auto const d = static_cast<std::size_t>(s.columns);
    auto const rows = static_cast<std::size_t>(s.rows);
    testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 1.0F), s};
    testing::rows_of<T> dy{testing::normal_numbers<T>(testing::extent(s), 2), s};
    testing::rows_of<T> addend{testing::normal_numbers<T>(testing::extent(s), 4, 8.0F), s};
    auto weight = testing::normal_numbers<T>(d, 3);
    std::vector<A> rstd(rows);
    testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
    reference::stream ref_stream;
    ops::rms_norm(ref_stream, expected.view(), testing::view_of(rstd), x.view(),
                  testing::view_of(weight));
    ops::rms_norm_backward_input(ref_stream, expected.view(), dy.view(), x.view(),
                                 testing::view_of(weight), testing::view_of(rstd), addend.view());
    testing::rows_of<T> dx{testing::poison<T>(testing::extent(s)), s};
    cuda::kernels::rms_norm_backward_input<T> const body{dx.view(),     dy.view(),   x.view(),
                                                         weight.data(), rstd.data(), addend.view()};
    testing::run_in_every_order(static_cast<unsigned>(s.rows), 32, 32 * sizeof(A), body, [&](auto) {
      testing::check_close(dx.data, expected.data, testing::norm_tolerance<T>);
      std::ranges::fill(dx.data, T(-77.0F));
    });
  }
}

}  // namespace cuda_rms_norm_test
