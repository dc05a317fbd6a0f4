// The body of norm_gradients' kernel on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <parallel/ops/cuda/kernels/norm/norm_gradients.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_norm_gradients_test {

using namespace parallel;
using parallel::index;

/// Random inputs of a shape, and the results of the reference.
template <class T, bool Centred, bool Biased>
struct problem {
  using A = accumulate_t<T>;
  testing::row_shape s;
  bool adds;
  index runs = ops::norm_gradient_runs(s.rows);
  testing::rows_of<T> x{testing::normal_numbers<T>(testing::extent(s), 1, 2.0F, 1.0F), s};
  testing::rows_of<T> dy{testing::normal_numbers<T>(testing::extent(s), 2), s};
  testing::rows_of<T> addend_rows{testing::normal_numbers<T>(testing::extent(s), 3, 8.0F), s};
  testing::rows_of<T> expected{testing::poison<T>(testing::extent(s)), s};
  std::vector<T> weight = testing::normal_numbers<T>(static_cast<std::size_t>(s.columns), 4);
  std::vector<A> mean = testing::normal_numbers<A>(static_cast<std::size_t>(s.rows), 5);
  std::vector<A> rstd = testing::normal_numbers<A>(static_cast<std::size_t>(s.rows), 6);
  std::vector<A> weight_sums = testing::poison<A>(static_cast<std::size_t>(runs * s.columns));
  std::vector<A> bias_sums = testing::poison<A>(Biased ? weight_sums.size() : 0);

  problem(testing::row_shape shape, bool with_addend) : s(shape), adds(with_addend) {
    reference::stream ref_stream;
    ops::norm_gradients(
        ref_stream, expected.view(), sums(weight_sums), Biased ? sums(bias_sums) : matrix_view<A>(),
        dy.view(), x.view(), testing::view_of(weight),
        Centred ? testing::view_of(mean) : vector_view<A>(), testing::view_of(rstd), addend());
  }

  [[nodiscard]] matrix_view<A> sums(std::vector<A>& partial) const {
    return {partial.data(), {runs, s.columns}};
  }
  [[nodiscard]] ops::rows_view<T const> addend() {
    if (!adds) return {};
    return addend_rows.view();
  }
  /// The body with `dx` as its output.
  template <bool Whole>
  [[nodiscard]] cuda::kernels::norm_gradients<T, Centred, Biased, Whole> body(
      testing::rows_of<T>& dx, std::vector<A>& of_weight, std::vector<A>& of_bias) {
    return {dx.view(),
            of_weight.data(),
            of_bias.data(),
            dy.view(),
            x.view(),
            weight.data(),
            Centred ? mean.data() : nullptr,
            rstd.data(),
            addend()};
  }
};

template <class T, bool Centred, bool Biased, bool Whole>
void check() {
  using A = accumulate_t<T>;
  std::vector<testing::row_shape> shapes(std::begin(testing::row_shapes),
                                         std::end(testing::row_shapes));
  shapes.push_back({37, 40, 8, 0});  // runs of 12 and 13 rows
  for (testing::row_shape const s : shapes)
    for (bool const adds : {false, true}) {
      CAPTURE(s.rows);
      CAPTURE(s.columns);
      CAPTURE(adds);
      problem<T, Centred, Biased> p(s, adds);
      if (Whole && !cuda::kernels::whole_rows(p.weight.data(), p.weight.data(), p.x.view(),
                                              p.dy.view(), p.addend_rows.view()))
        continue;
      auto const blocks = static_cast<unsigned>(p.runs);
      testing::rows_of<T> dx{testing::poison<T>(testing::extent(s)), s};
      std::vector<A> weight(p.weight_sums.size()), bias(p.bias_sums.size());
      auto const body = p.template body<Whole>(dx, weight, bias);
      for (unsigned const threads : {32U, 64U})
        testing::run_in_every_order(blocks, threads, 128 * sizeof(A), body, [&](auto) {
          testing::check_close(dx.data, p.expected.data, testing::norm_tolerance<T>);
          testing::check_close(weight, p.weight_sums, std::max(testing::norm_tolerance<A>, 1e-5));
          testing::check_close(bias, p.bias_sums, std::max(testing::norm_tolerance<A>, 1e-5));
          std::ranges::fill(dx.data, T(-77.0F));
          std::ranges::fill(weight, A(-77));
          std::ranges::fill(bias, A(-77));
        });
      auto in_place = p.dy;
      auto in_place_body = body;
      in_place_body.dx = in_place.view();
      in_place_body.dy = in_place.view();
      testing::host_block::run_grid(blocks, 64, 128 * sizeof(A), testing::thread_order::descending,
                                    in_place_body);
      for (index m = 0; m < s.rows; ++m)
        for (index n = 0; n < s.columns; ++n) {
          auto const wanted = static_cast<double>(p.expected.view().row(m)[n]);
          CHECK(std::abs(static_cast<double>(in_place.view().row(m)[n]) - wanted) <
                testing::norm_tolerance<T> * (1.0 + std::abs(wanted)));
        }
      testing::check_close(weight, p.weight_sums, std::max(testing::norm_tolerance<A>, 1e-5));
    }
}

TEST_CASE_TEMPLATE(
    "norm_gradients kernel: the gradient and the sums equal the reference's, also in place", T,
    float, bf16, double) {
  check<T, true, true, false>();
  check<T, true, true, true>();
  check<T, true, false, true>();
  check<T, false, false, false>();
  check<T, false, false, true>();
}

}  // namespace cuda_norm_gradients_test
