// temperature: its formula, and the host against the reference.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <parallel/ops/host/attention/temperature.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace temperature_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;
using parallel::index;

TEST_CASE("temperature: factors grow with the logarithm of the position in the document") {
  std::vector<double> y(8, 2.0);
  parallel::reference::stream s;
  // two sequences, each with the positions 6, 7, 8, 9; the factor makes a step every 3 positions
  ops::temperature(s, ops::rows_view<double>(y.data(), 8, 1, 1),
                   {.scale = 0.5, .floor_scale = 3.0, .sequence = 4, .first = 6});
  double const steps[] = {2, 2, 3, 3};
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::abs(y[i] - 2.0 * (1.0 + 0.5 * std::log(steps[i % 4] + 1.0))) < 1e-15);
  std::vector<std::int32_t> const begins = {0, 0, 2, 2, 0, 0, 0, 0};
  std::vector<double> z(8, 1.0);
  ops::temperature(s, ops::rows_view<double>(z.data(), 8, 1, 1),
                   {.scale = 1.0, .floor_scale = 1.0, .sequence = 4, .document_begins = begins});
  // floor_scale is 1: as many steps as the position in the document + 1
  double const document_steps[] = {1, 2, 1, 2, 1, 2, 3, 4};
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::abs(z[i] - (1.0 + std::log(document_steps[i] + 1.0))) < 1e-15);
}

TEST_CASE_TEMPLATE("temperature: the host equals the reference bit for bit", T, float, bf16,
                   double) {
  for (index const columns : {1, 7, 64, 100})
    for (int const threads : {1, 2}) {
      auto expected = random<T>(2 * 300 * (columns + 5), 1);
      auto got = expected;
      auto const work = [&](auto& s, std::vector<T>& data) {
        ops::temperature(s, ops::rows_view<T>(data.data() + 2, 600, columns, columns + 5),
                         {.scale = 0.1, .floor_scale = 16.0, .sequence = 300});
      };
      on_reference([&](auto& s) { work(s, expected); });
      on_host(threads, [&](auto& s) { work(s, got); });
      CHECK(same_bits(expected, got));
    }
}

TEST_CASE("temperature: invalid options are refused, and the meta device counts operations") {
  parallel::meta::stream s;
  ops::rows_view<float> const y(nullptr, 3, 4, 4);
  CHECK_THROWS_WITH_AS(ops::temperature(s, y, {.floor_scale = 0.0}),
                       "ops::temperature: floor_scale is 0, but must be above 0", parallel::error);
  std::vector<std::int32_t> const begins(2);
  CHECK_THROWS_WITH_AS(ops::temperature(s, y, {.document_begins = begins}),
                       "ops::temperature: there are 2 document_begins for 3 rows; give one per "
                       "row, or none",
                       parallel::error);
  ops::temperature(s, y, {});
  CHECK(s.operations() == 12);
}

}  // namespace temperature_test
