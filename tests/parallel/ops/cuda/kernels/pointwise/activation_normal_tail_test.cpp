// The tail of the normal distribution as kernels compute it, against erfc and exp in double: for
// every bf16 number, and for small and large floats.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <parallel/ops/cuda/kernels/pointwise/activation.hpp>

namespace normal_tail_test {

using namespace parallel;

/// The greatest relative errors of both results, where the results are normal numbers.
struct errors {
  double beyond = 0;
  double density = 0;
  unsigned counted = 0;

  template <class T>
  void count(float x) {
    auto const [t, beyond_t, density_t] = cuda::kernels::normal_tail_of<T>(x);
    double const exact = 0.5 * std::erfc(std::abs(double{x}) / std::sqrt(2.0));
    double const height = std::exp(-0.5 * double{x} * double{x}) / std::sqrt(2 * 3.14159265358979);
    if (exact < 2e-38) return;
    beyond = std::max(beyond, std::abs(double{beyond_t} / exact - 1));
    density = std::max(density, std::abs(double{density_t} / height - 1));
    ++counted;
  }
};

TEST_CASE(
    "normal_tail: for bf16 both results have a relative error of at most 1e-5, for all inputs") {
  errors seen;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    float const x = std::bit_cast<float>(bits << 16);
    if (!std::isnan(x)) seen.count<bf16>(x);
  }
  CHECK(seen.counted > 33'000);
  CHECK(seen.beyond < 1e-5);
  CHECK(seen.density < 1e-5);
}

TEST_CASE(
    "normal_tail: for bf16 and inputs below 4 both results have a relative error of at most 1e-6") {
  errors seen;
  for (std::uint32_t bits = 0; bits < 0x4080U; ++bits)
    seen.count<bf16>(std::bit_cast<float>(bits << 16));
  CHECK(seen.beyond < 1e-6);
  CHECK(seen.density < 1e-6);
}

TEST_CASE("normal_tail: for float the relative errors are at most 6e-7 and 1.5e-6") {
  errors seen;
  for (std::uint32_t bits = 0; bits < 0x41600000U; bits += 1009)
    seen.count<float>(std::bit_cast<float>(bits));
  for (float x = 0; x < 14; x += 1.7e-5F) seen.count<float>(-x);
  CHECK(seen.counted > 1'500'000);
  CHECK(seen.beyond < 6e-7);
  CHECK(seen.density < 1.5e-6);
}

TEST_CASE_TEMPLATE("normal_tail: beyond the bound the results are 0, and NaN stays NaN", T, float,
                   bf16, double) {
  using A = accumulate_t<T>;
  for (A const x : {A(-50), A(1e30), std::numeric_limits<A>::infinity()}) {
    auto const [t, beyond, density] = cuda::kernels::normal_tail_of<T>(x);
    CHECK(t * beyond < A(1e-37));
    CHECK(t * density < A(1e-37));
  }
  auto const [t, beyond, density] =
      cuda::kernels::normal_tail_of<T>(std::numeric_limits<A>::quiet_NaN());
  CHECK(std::isnan(t));
  CHECK(std::isnan(beyond));
  CHECK(std::isnan(density));
}

}  // namespace normal_tail_test
