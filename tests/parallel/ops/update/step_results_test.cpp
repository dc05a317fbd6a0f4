// step_totals and gradient_scale: their formulas, on every device.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/host/update/step_results.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace step_results_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::statistics;

template <class L>
void check_totals(auto const& run) {
  std::vector<statistics<L>> microbatches;
  statistics<L> total;
  for (int i = 0; i < 5; ++i) {
    microbatches.push_back({static_cast<L>(7 * i + 1) / static_cast<L>(3), 10 * i, i});
    total += microbatches.back();
  }
  L const squared = static_cast<L>(12345);
  ops::step_sums<L> out;
  run([&](auto& s) { ops::step_totals(s, &out, std::span(microbatches), &squared); });
  CHECK(out.statistics_of_tokens().loss == total.loss);
  CHECK(out.statistics_of_tokens().tokens == 100);
  CHECK(out.statistics_of_tokens().correct == 10);
  CHECK(out.squared_norm() == squared);
  run([&](auto& s) { ops::step_totals(s, &out, std::span(microbatches).first(0), &squared); });
  CHECK(out.statistics_of_tokens().tokens == 0);
}

TEST_CASE_TEMPLATE("step_totals: the microbatches are summed in order", L, double, std::uint64_t) {
  check_totals<L>([](auto const& work) { on_reference(work); });
  check_totals<L>([](auto const& work) { on_host(1, work); });
}

TEST_CASE_TEMPLATE("gradient_scale: the factor follows from the sums and the threshold", A, float,
                   double) {
  double const infinity = std::numeric_limits<double>::infinity();
  auto const scale = [](ops::step_sums<double> sums, double threshold) {
    A by_reference = 7, by_host = 7;
    on_reference([&](auto& s) { ops::gradient_scale(s, &by_reference, &sums, threshold); });
    on_host(1, [&](auto& s) { ops::gradient_scale(s, &by_host, &sums, threshold); });
    CHECK(by_reference == by_host);
    CHECK(by_host == static_cast<A>(ops::size_of_gradient(sums, threshold).scale));
    return by_host;
  };
  // 8 tokens; the norm of the mean gradient is 5
  CHECK(ops::size_of_gradient({{1, 8, 2, 1600}}, infinity).norm == 5.0);
  CHECK(scale({{1, 8, 2, 1600}}, infinity) == A(0.125));
  CHECK(scale({{1, 8, 2, 1600}}, 6.0) == A(0.125));
  CHECK(scale({{1, 8, 2, 1600}}, 1.0) == static_cast<A>(1.0 / (5.0 + 1e-6) / 8.0));
  CHECK(scale({{0, 0, 0, 0}}, 1.0) == A(1));  // no tokens
  CHECK(scale({{0, 4, 0, 0}}, infinity) == A(0.25));
  CHECK(scale({{0, 4, 0, infinity}}, infinity) ==
        A(0.25));  // a norm that is not finite is not clipped
  CHECK(scale({{0, 4, 0, std::nan("")}}, 1.0) == A(0.25));
}

TEST_CASE("step results: the meta device computes nothing") {
  parallel::meta::stream s;
  float scale = 7;
  ops::step_sums<double> sums;
  double squared = 1;
  ops::step_totals(s, &sums, std::span<statistics<double>>(), &squared);
  ops::gradient_scale(s, &scale, &sums, 1.0);
  CHECK(scale == 7);
  CHECK(s.operations() == 0);
}

}  // namespace step_results_test
