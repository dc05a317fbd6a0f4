// norm_gradients against the separate operations for the gradients of a norm's input and weights.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/ops/norm/norm_gradients.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/row_data.hpp"

namespace norm_gradients_test {

using namespace parallel;
using parallel::index;

template <class T>
struct problem {
  using A = accumulate_t<T>;
  index rows, columns;
  std::vector<T> x = testing::normal_numbers<T>(size(), 1, 2.0F, 1.0F);
  std::vector<T> dy = testing::normal_numbers<T>(size(), 2),
                 addend = testing::normal_numbers<T>(size(), 3);
  std::vector<T> weight = testing::normal_numbers<T>(static_cast<std::size_t>(columns), 4);
  std::vector<A> mean = testing::normal_numbers<A>(static_cast<std::size_t>(rows), 5);
  std::vector<A> rstd = testing::normal_numbers<A>(static_cast<std::size_t>(rows), 6);

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(rows * columns); }
  [[nodiscard]] ops::rows_view<T> view(std::vector<T>& elements) const {
    return {elements.data(), rows, columns, columns};
  }
};

TEST_CASE_TEMPLATE(
    "norm_gradients: gradients equal those of the separate operations, for both norms, also in "
    "place",
    T, float, bf16, double) {
  using A = accumulate_t<T>;
  for (index const rows : {0, 1, 15, 17, 100})
    for (bool const centred : {true, false})
      for (bool const adds : {true, false}) {
        CAPTURE(rows);
        CAPTURE(centred);
        CAPTURE(adds);
        problem<T> p{rows, 7};
        auto const mean = centred ? testing::view_of(p.mean) : vector_view<A>();
        auto const addend = adds ? p.view(p.addend) : ops::rows_view<T>(nullptr, 0, 0, 0);
        std::vector<T> expected(p.size()), dx(p.size());
        std::vector<A> weight(7), bias(7), summed(7), summed_bias(7);
        reference::stream s;
        if (centred) {
          ops::layer_norm_backward_input(s, p.view(expected), p.view(p.dy), p.view(p.x),
                                         testing::view_of(p.weight), mean, testing::view_of(p.rstd),
                                         addend);
          ops::layer_norm_backward_weight(s, testing::view_of(weight), testing::view_of(bias),
                                          p.view(p.dy), p.view(p.x), mean,
                                          testing::view_of(p.rstd));
        } else {
          ops::rms_norm_backward_input(s, p.view(expected), p.view(p.dy), p.view(p.x),
                                       testing::view_of(p.weight), testing::view_of(p.rstd),
                                       addend);
          ops::rms_norm_backward_weight(s, testing::view_of(weight), p.view(p.dy), p.view(p.x),
                                        testing::view_of(p.rstd));
        }
        auto const runs = ops::norm_gradient_runs(rows);
        std::vector<A> sums(static_cast<std::size_t>(7 * runs), A(-77)), more_sums = sums;
        matrix_view<A> const of_weight(sums.data(), {runs, 7});
        matrix_view<A> const of_bias(more_sums.data(), {centred ? runs : 0, centred ? 7 : 0});
        auto const run = [&](auto to) {
          ops::norm_gradients(s, to, of_weight, of_bias, p.view(p.dy), p.view(p.x),
                              testing::view_of(p.weight), mean, testing::view_of(p.rstd), addend);
        };
        run(p.view(dx));
        CHECK(dx == expected);
        ops::add_bias_backward(s, testing::view_of(summed), of_weight);
        if (centred) ops::add_bias_backward(s, testing::view_of(summed_bias), of_bias);
        double const close = std::is_same_v<T, double> ? 1e-12 : 1e-4;
        testing::check_close(summed, weight, close);
        testing::check_close(summed_bias, bias, close);
        run(p.view(p.dy));
        CHECK(p.dy == expected);
      }
}

TEST_CASE(
    "norm_gradient_runs: runs have at least 16 rows, except the last ones, and there are at most "
    "792") {
  CHECK(ops::norm_gradient_runs(0) == 0);
  CHECK(ops::norm_gradient_runs(1) == 1);
  CHECK(ops::norm_gradient_runs(16) == 1);
  CHECK(ops::norm_gradient_runs(17) == 2);
  CHECK(ops::norm_gradient_runs(16 * 767) == 767);
  CHECK(ops::norm_gradient_runs(1 << 20) == 792);
}

TEST_CASE("norm_gradients: shapes that do not fit are refused before anything runs") {
  problem<double> p{20, 7};
  std::vector<double> dx(p.size()), sums(21);
  reference::stream s;
  auto const refused = [&](index runs, index columns, vector_view<double> mean, bool with_bias,
                           char const* message) {
    matrix_view<double> const sums_view(sums.data(), {runs, columns});
    CHECK_THROWS_WITH_AS(
        ops::norm_gradients(s, p.view(dx), sums_view, with_bias ? sums_view : matrix_view<double>(),
                            p.view(p.dy), p.view(p.x), testing::view_of(p.weight), mean,
                            testing::view_of(p.rstd)),
        doctest::Contains(message), error);
  };
  auto const mean = testing::view_of(p.mean);
  refused(3, 7, mean, false, "the number of rows of sums");
  refused(2, 6, mean, true, "the number of columns of sums");
  refused(2, 7, {}, true, "there are bias_sums but no mean");
  refused(2, 7, mean.slice(0, 19), true, "the size of mean");
}

}  // namespace norm_gradients_test
