// affine, on a device that adds biases in its products and on one that adds them afterwards.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/ops/affine.hpp>
#include <parallel/ops/reference.hpp>

#include "support.hpp"

namespace affine_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;

/// The reference stream, except that it declares to add biases in products.
struct adding_stream : parallel::reference::stream {};

template <class Arguments>
void run_operation(adding_stream&, Arguments const& a) {
  static_assert(std::is_same_v<Arguments, ops::affine_arguments<bf16>> ||
                std::is_same_v<Arguments, ops::affine_arguments<double>> ||
                std::is_same_v<Arguments, ops::affine_backward_weight_arguments<double>>);
  ops::compute(a);
}

}  // namespace affine_test

template <class T>
inline constexpr bool parallel::ops::adds_bias_in_products<affine_test::adding_stream, T> = true;

namespace affine_test {

TEST_CASE("affine: the result is the product plus bias plus addend") {
  std::vector<double> const x{1, 2, 3, 4, 5, 6}, weight{1, 0, 0, 0, 1, 1}, bias{10, 20};
  std::vector<double> const addend{100, 200, 300, 400};
  auto const run = [&](auto& s) {
    std::vector<double> y(4, -1), with_addend(4, -1);
    ops::affine(s, matrix(y, 2), matrix(x, 2), matrix(weight, 2), vector(bias));
    ops::affine(s, matrix(with_addend, 2), matrix(x, 2), matrix(weight, 2), vector(bias),
                matrix(addend, 2));
    CHECK(y == std::vector<double>{11, 25, 14, 31});
    CHECK(with_addend == std::vector<double>{111, 225, 314, 431});
  };
  on_reference(run);
  adding_stream adding;
  run(adding);
}

TEST_CASE("affine: a device that adds the bias in the product rounds the result once") {
  std::vector<bf16> const x{bf16(1.0F)}, weight{bf16(256.0F)}, bias{bf16(1.0F)};
  std::vector<bf16> const addend{bf16(1.0F)};
  std::vector<bf16> y(1);
  adding_stream adding;
  ops::affine(adding, matrix(y, 1), matrix(x, 1), matrix(weight, 1), vector(bias),
              matrix(addend, 1));
  CHECK(y[0] == bf16(258.0F));
}

TEST_CASE("affine_backward_weight: dweight is replaced or added to, dbias is always added to") {
  std::vector<double> const dy{1, 2, 3, 4}, x{1, 2, 3, 4, 5, 6};
  auto const run = [&](auto& s) {
    std::vector<double> weight{100, 100, 100, 100, 100, 100}, bias{10, 20};
    ops::affine_backward_weight(s, matrix(weight, 2), vector(bias), matrix(dy, 2), matrix(x, 2),
                                false);
    CHECK(weight == std::vector<double>{13, 17, 21, 18, 24, 30});
    CHECK(bias == std::vector<double>{14, 26});
    ops::affine_backward_weight(s, matrix(weight, 2), vector(bias), matrix(dy, 2), matrix(x, 2),
                                true);
    CHECK(weight == std::vector<double>{26, 34, 42, 36, 48, 60});
    CHECK(bias == std::vector<double>{18, 32});
    std::vector<double> const nothing;
    ops::affine_backward_weight(s, matrix(weight, 2), vector(bias),
                                parallel::matrix_view<double const>(nothing.data(), {0, 2}),
                                parallel::matrix_view<double const>(nothing.data(), {0, 3}), true);
    CHECK(bias == std::vector<double>{18, 32});
  };
  on_reference(run);
  adding_stream adding;
  run(adding);
}

TEST_CASE("affine: shapes that do not fit are refused before anything runs") {
  std::vector<double> x(6), weight(6), bias(3), y(4);
  adding_stream adding;
  CHECK_THROWS_WITH_AS(
      ops::affine(adding, matrix(y, 2), matrix(x, 2), matrix(weight, 2), vector(bias)),
      doctest::Contains("the size of bias"), parallel::error);
  std::vector<double> gradient(6);
  CHECK_THROWS_WITH_AS(ops::affine_backward_weight(adding, matrix(gradient, 2), vector(bias),
                                                   matrix(y, 2), matrix(x, 2), false),
                       doctest::Contains("the size of dbias"), parallel::error);
  on_reference([&](auto& s) {
    CHECK_THROWS_WITH_AS(
        ops::affine(s, matrix(y, 2), matrix(x, 2), matrix(weight, 2), vector(bias)),
        doctest::Contains("the size of bias"), parallel::error);
  });
}

}  // namespace affine_test
