// The operations by Kokkos: every operation against the reference in double, as on any device, and
// some against the reference in their own type, with equal bits.
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/kokkos.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/kokkos.hpp"
#include "support/laws/device_laws.hpp"

namespace kokkos_operations_test {

using parallel::bf16;
namespace kokkos = parallel::kokkos;
namespace ops = parallel::ops;

TEST_CASE_TEMPLATE("Kokkos: operations on elements", T, float, std::uint64_t) {
  test::ensure_kokkos();
  kokkos::device device;
  test::check_element_operations<T>(device, 1);
}

TEST_CASE_TEMPLATE("Kokkos: operations on rows, matrices and tables", T, float, std::uint64_t) {
  test::ensure_kokkos();
  kokkos::device device;
  test::check_row_operations<T>(device, 2);
}

TEST_CASE("Kokkos: attention") {
  test::ensure_kokkos();
  kokkos::device device;
  test::check_attention_operations<float>(device, 3);
}

/// Counts the operations that it passes on to Kokkos.
struct counting_stream : kokkos::stream {
  parallel::index parts = 0;
};
template <class Arguments>
void run_operation(counting_stream& s, Arguments const& a) {
  static_assert(ops::operation_in_parts<Arguments>);
  s.parts = a.parts();
  run_operation(static_cast<kokkos::stream&>(s), a);
}

TEST_CASE_TEMPLATE("Kokkos: operations by rows and runs of elements have the reference's bits", T,
                   float, bf16) {
  test::ensure_kokkos();
  constexpr parallel::index rows = 37, width = 91;
  std::mt19937_64 random(7);
  auto const numbers = [&](std::size_t count) {
    std::normal_distribution<float> normal;
    std::vector<T> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<T>(normal(random)));
    return out;
  };
  auto const x = numbers(rows * width), weight = numbers(width), bias = numbers(width);
  struct results {
    std::vector<T> normal = std::vector<T>(rows * width);
    std::vector<T> active = std::vector<T>(rows * width);
  };
  auto const compute = [&](auto& s) {
    results out;
    parallel::shape<2> const extents{rows, width};
    ops::layer_norm(s, parallel::matrix_view<T>(out.normal.data(), extents), {}, {},
                    parallel::matrix_view<T const>(x.data(), extents),
                    parallel::vector_view<T const>(weight.data(), {width}),
                    parallel::vector_view<T const>(bias.data(), {width}));
    if constexpr (requires { s.parts; }) CHECK(s.parts == rows);
    ops::activation(s, std::span(out.active), std::span<T const>(x), ops::activation_kind::gelu);
    if constexpr (requires { s.parts; }) CHECK(s.parts == (rows * width + 1023) / 1024);
    s.synchronize();
    return out;
  };
  counting_stream by_kokkos;
  parallel::reference::stream plain;
  auto const got = compute(by_kokkos);
  auto const expected = compute(plain);
  auto const equal_bits = [](std::vector<T> const& a, std::vector<T> const& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
  };
  CHECK(equal_bits(got.normal, expected.normal));
  CHECK(equal_bits(got.active, expected.active));
}

TEST_CASE("Kokkos: an invalid label is an error of the stream before any row is computed") {
  test::ensure_kokkos();
  std::vector<float> logits{1, 2, 3, 4}, gradients(4, -1.0F), losses(2, -1.0F);
  std::vector<std::uint8_t> correct(2);
  std::vector<std::int32_t> const labels{1, 2};
  kokkos::stream s;
  ops::cross_entropy(s, parallel::matrix_view<float>(gradients.data(), {2, 2}),
                     parallel::vector_view<float>(losses.data(), {2}),
                     parallel::vector_view<std::uint8_t>(correct.data(), {2}),
                     parallel::matrix_view<float>(logits.data(), {2, 2}),
                     parallel::vector_view<std::int32_t const>(labels.data(), {2}));
  CHECK_THROWS_WITH_AS(s.synchronize(),
                       "ops::cross_entropy: label 2 of token 1 is outside of the vocabulary of 2",
                       parallel::error);
  CHECK(losses[0] == -1.0F);
  CHECK(gradients[0] == -1.0F);
}

}  // namespace kokkos_operations_test
