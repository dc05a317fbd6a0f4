// clip and its gradient.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <parallel/ops/host/pointwise/clip.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace clip_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;

TEST_CASE_TEMPLATE("clip: values within the limit are kept and marked as inside", T, float, bf16,
                   double) {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto const infinity = std::numeric_limits<float>::infinity();
  for (int repeat : {1, 5}) {  // less than a pack, and more than one
    std::vector<T> x;
    for (int i = 0; i < repeat; ++i)
      for (float const v : {-3.0F, -2.0F, -1.5F, 0.0F, 2.0F, 2.5F, infinity, -infinity, nan})
        x.push_back(T(v));
    std::vector<std::uint8_t> inside(x.size(), 7);
    std::vector<T> dx(x.size(), T(5.0F));
    on_host(1, [&](auto& s) {
      ops::clip(s, std::span(x), std::span(inside), 2.0F);
      ops::clip_backward(s, std::span(dx), std::span<std::uint8_t const>(inside));
    });
    float const expected[] = {-2.0F, -2.0F, -1.5F, 0.0F, 2.0F, 2.0F, 2.0F, -2.0F};
    std::uint8_t const expected_inside[] = {0, 1, 1, 1, 1, 0, 0, 0, 0};
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % 9 < 8)
        CHECK(float(x[i]) == expected[i % 9]);
      else
        CHECK(std::isnan(float(x[i])));
      CHECK(inside[i] == expected_inside[i % 9]);
      CHECK(float(dx[i]) == (expected_inside[i % 9] ? 5.0F : 0.0F));
    }
  }
}

TEST_CASE_TEMPLATE("clip: the host equals the reference bit for bit for odd sizes", T, float, bf16,
                   double) {
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    auto const x = random<T>(size, 1);
    compare_host(
        {},
        [](auto& s, auto clipped, auto in_inference, auto dx, auto inside) {
          ops::clip(s, clipped, inside, 0.7F);
          ops::clip(s, in_inference, {}, 0.7F);
          ops::clip_backward(s, dx, std::span<std::uint8_t const>(inside));
        },
        x, x, random<T>(size, 2), std::vector<std::uint8_t>(x.size()));
  }
}

TEST_CASE("clip: the limit for doubles is a double") {
  double const limit = 0.1;  // not a float
  auto const run = [&](auto& s) {
    std::vector<double> x = {-1.0, -limit, limit, std::nextafter(limit, 1.0), 1.0};
    std::vector<std::uint8_t> inside(x.size());
    ops::clip(s, std::span(x), std::span(inside), limit);
    s.synchronize();
    CHECK(x == std::vector<double>{-limit, -limit, limit, limit, limit});
    CHECK(inside == std::vector<std::uint8_t>{0, 1, 1, 0, 0});
  };
  on_reference(run);
  on_host(1, run);
}

TEST_CASE("clip: a negative limit is refused") {
  std::vector<float> x(3);
  std::string message;
  try {
    on_reference([&](auto& s) { ops::clip(s, std::span(x), {}, -1.0F); });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::clip: the limit is -1, but must not be negative");
}

TEST_CASE("clip: the meta device takes null pointers and counts no operations") {
  parallel::meta::stream s;
  std::span<bf16> const x(static_cast<bf16*>(nullptr), 7);
  std::span<std::uint8_t> const inside(static_cast<std::uint8_t*>(nullptr), 7);
  ops::clip(s, x, inside, 1.0F);
  ops::clip_backward(s, x, inside);
  CHECK(s.operations() == 0);
}

}  // namespace clip_test
