// cublaslt takes the algorithm of a matrix product from the heuristic, from timings or from a
// table; tested on a fake CUDA runtime and a fake cuBLASLt.
#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/ops/cuda/matmul/cublaslt.hpp>

#include "support/devices/fake_cublaslt.hpp"

namespace cublaslt_test {

using parallel::as_graph;
using parallel::cuda::cublaslt;
using parallel::cuda::matmul_shape;
using parallel::cuda::stream;
using algorithms = std::vector<int>;

matmul_shape const shape{.m = 2, .n = 2, .k = 2};
constexpr int guessed = 0;
constexpr int fastest = fake::fastest_product;

/// Resets the fake machine to one that has memory for a workspace.
void reset_machine() {
  fake::machine() = {};
  fake::machine().memory = std::size_t{1} << 30;
}

/// Multiplies on `s`; the values are irrelevant.
void multiply(stream& s, matmul_shape const& dimensions = shape) {
  float a[4] = {}, b[4] = {}, c[4] = {};
  CHECK(s.library<cublaslt>().multiply(dimensions, c, a, b, c));
}

TEST_CASE("cublaslt: a product uses the first heuristic, after tuning the fastest algorithm") {
  reset_machine();
  stream s;
  auto& products = s.library<cublaslt>();
  multiply(s);
  CHECK(fake::machine().direct == algorithms{guessed});
  products.tune(true);
  multiply(s);
  auto const timed_count = fake::machine().direct.size();
  CHECK(timed_count > 3);
  CHECK(fake::machine().direct.back() == fastest);
  multiply(s);  // not timed again
  products.tune(false);
  multiply(s);
  CHECK(fake::machine().direct.size() == timed_count + 2);
  CHECK(fake::machine().direct.back() == fastest);
  CHECK(products.tuning().entries().at(shape).guess == fastest);
}

TEST_CASE("cublaslt: without memory for tuning a product uses the first heuristic") {
  reset_machine();
  stream s;
  auto& products = s.library<cublaslt>();
  multiply(s);  // allocates scratch memory
  products.tune(true);
  fake::machine().memory = fake::machine().used();
  multiply(s);
  CHECK(fake::machine().direct == algorithms{guessed, guessed});
  CHECK(products.tuning().entries().empty());
  CHECK(fake::machine().used() == fake::machine().memory);
}

TEST_CASE("cublaslt: timings of other ranks decide, also inside a graph") {
  reset_machine();
  stream s({.graphs = true});
  auto& products = s.library<cublaslt>();
  auto table = products.tuning();
  table.set(shape, {.words = {1}, .guess = 1});
  products.use(table);
  products.tune(true);
  for (int i = 0; i < 2; ++i) as_graph(s, {}, [&] { multiply(s); });
  CHECK(fake::machine().direct == algorithms{1});
  CHECK(fake::machine().launches == std::vector<algorithms>{{1}});
}

TEST_CASE("cublaslt: a product first seen in a capture is tuned after the capture") {
  reset_machine();
  stream s({.graphs = true});
  auto& products = s.library<cublaslt>();
  products.tune(true);
  multiply(s);  // allocates the workspace
  auto const direct_before = fake::machine().direct;
  auto const allocated = fake::machine().allocated;
  auto other = shape;
  other.accumulate = true;
  as_graph(s, {}, [] {});
  for (int i = 0; i < 2; ++i)
    as_graph(s, {}, [&] {
      multiply(s);
      multiply(s, other);
    });
  CHECK(fake::machine().launches == std::vector<algorithms>(2, {fastest, guessed}));
  CHECK(fake::machine().direct == direct_before);
  CHECK(fake::machine().allocated == allocated);
  CHECK(!products.tuning().entries().contains(other));

  multiply(s, other);
  CHECK(products.tuning().entries().at(other).guess == fastest);
  as_graph(s, {}, [&] {
    multiply(s);
    multiply(s, other);
  });
  CHECK(fake::machine().launches.back() == algorithms{fastest, fastest});
}

TEST_CASE("cublaslt: a product with a bias has its own entry and gets its bias pointer") {
  reset_machine();
  stream s;
  auto& products = s.library<cublaslt>();
  multiply(s);
  CHECK(fake::epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  CHECK(fake::bias == nullptr);
  matmul_shape biased = shape;
  biased.epilogue = parallel::cuda::matmul_epilogue::bias;
  alignas(16) float first[4] = {}, second[4] = {};
  float a[4] = {}, b[4] = {}, c[4] = {};
  for (float const* const bias : {first, second, first}) {
    CHECK(products.multiply(biased, c, a, b, nullptr, bias));
    CHECK(fake::epilogue == CUBLASLT_EPILOGUE_BIAS);
    CHECK(fake::bias == bias);
  }
}

/// Multiplies, and computes the gradient of a bias in the epilogue or by a separate pass, which
/// takes a millisecond. Checks that the gradient is added once, although tuning runs both ways
/// several times. Returns whether the separate pass ran last.
bool multiply_with_bias_gradient(stream& s) {
  constexpr int separate_pass = 100;
  matmul_shape dimensions = shape;
  dimensions.epilogue = parallel::cuda::matmul_epilogue::bias_gradient;
  alignas(16) float sums[4] = {};
  float a[4] = {}, b[4] = {}, c[4] = {};
  float gradient = 3;
  auto& products = s.library<cublaslt>();
  products.multiply_or(
      dimensions, {std::as_writable_bytes(std::span(&gradient, 1))},
      [&] {
        bool const is_fused = products.multiply(dimensions, c, a, b, nullptr, sums);
        if (is_fused) CHECK(fake::bias == sums);
        if (is_fused) ++gradient;
        return is_fused;
      },
      [&] {
        multiply(s);
        fake::enqueue(s.get(), separate_pass);
        ++gradient;
      });
  CHECK(gradient == 4);
  return fake::machine().direct.back() == separate_pass;
}

TEST_CASE("cublaslt: a bias gradient is fused if that is faster than a separate pass") {
  for (bool const is_fusion_slow : {false, true}) {
    CAPTURE(is_fusion_slow);
    reset_machine();
    fake::bias_gradient_time = is_fusion_slow ? 9 : 0;
    stream s;
    auto& products = s.library<cublaslt>();
    CHECK(!multiply_with_bias_gradient(s));  // untuned
    CHECK(fake::epilogue == CUBLASLT_EPILOGUE_BGRADB);
    products.tune(true);
    static_cast<void>(multiply_with_bias_gradient(s));
    auto const timed_count = fake::machine().direct.size();
    products.tune(false);
    CHECK(multiply_with_bias_gradient(s) == is_fusion_slow);
    CHECK(fake::machine().direct.size() == timed_count + (is_fusion_slow ? 2 : 1));
    auto const table =
        parallel::cuda::matmul_tuning::parse(to_text(products.tuning()), "saved tuning");
    CHECK(table == products.tuning());
    stream resumed;
    resumed.library<cublaslt>().use(table);
    resumed.library<cublaslt>().tune(true);
    auto const direct_before = fake::machine().direct.size();
    CHECK(multiply_with_bias_gradient(resumed) == is_fusion_slow);
    CHECK(fake::machine().direct.size() ==
          direct_before + (is_fusion_slow ? 2 : 1));  // without timing
  }
  fake::bias_gradient_time = 0;
}

}  // namespace cublaslt_test
