// The algorithm of a matrix product: from the heuristic, by timing, or from a table; on a fake CUDA
// runtime and a fake cuBLASLt.
#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/ops/cuda/cublaslt.hpp>

#include "support/fake_cublaslt.hpp"

namespace cublaslt_test {

using parallel::as_graph;
using parallel::cuda::cublaslt;
using parallel::cuda::matmul_shape;
using parallel::cuda::stream;
using numbers = std::vector<int>;

matmul_shape const shape{.m = 2, .n = 2, .k = 2};
constexpr int guessed = 0;
constexpr int fastest = fake::fastest_product;

/// A machine with memory for a workspace.
void begin() {
  fake::machine() = {};
  fake::machine().memory = std::size_t{1} << 30;
}

/// Multiplies on `s`; the values are irrelevant.
void multiply(stream& s, matmul_shape const& dimensions = shape) {
  float a[4] = {}, b[4] = {}, c[4] = {};
  CHECK(s.library<cublaslt>().multiply(dimensions, c, a, b, c));
}

TEST_CASE("cublaslt: a product uses the first heuristic, after tuning the fastest algorithm") {
  begin();
  stream s;
  auto& products = s.library<cublaslt>();
  multiply(s);
  CHECK(fake::machine().direct == numbers{guessed});
  products.tune(true);
  multiply(s);
  auto const timed = fake::machine().direct.size();
  CHECK(timed > 3);
  CHECK(fake::machine().direct.back() == fastest);
  multiply(s);  // not timed again
  products.tune(false);
  multiply(s);
  CHECK(fake::machine().direct.size() == timed + 2);
  CHECK(fake::machine().direct.back() == fastest);
  CHECK(products.tuning().entries().at(shape).guess == fastest);
}

TEST_CASE("cublaslt: without memory for tuning a product uses the first heuristic") {
  begin();
  stream s;
  auto& products = s.library<cublaslt>();
  multiply(s);  // allocates scratch memory
  products.tune(true);
  fake::machine().memory = fake::machine().used();
  multiply(s);
  CHECK(fake::machine().direct == numbers{guessed, guessed});
  CHECK(products.tuning().entries().empty());
  CHECK(fake::machine().used() == fake::machine().memory);
}

TEST_CASE("cublaslt: timings of other ranks decide, also inside a graph") {
  begin();
  stream s({.graphs = true});
  auto& products = s.library<cublaslt>();
  auto table = products.tuning();
  table.set(shape, {.words = {1}, .guess = 1});
  products.use(table);
  products.tune(true);
  for (int i = 0; i < 2; ++i) as_graph(s, {}, [&] { multiply(s); });
  CHECK(fake::machine().direct == numbers{1});
  CHECK(fake::machine().launches == std::vector<numbers>{{1}});
}

TEST_CASE("cublaslt: a product first seen in a capture is tuned after the capture") {
  begin();
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
  CHECK(fake::machine().launches == std::vector<numbers>(2, {fastest, guessed}));
  CHECK(fake::machine().direct == direct_before);
  CHECK(fake::machine().allocated == allocated);
  CHECK(!products.tuning().entries().contains(other));

  multiply(s, other);
  CHECK(products.tuning().entries().at(other).guess == fastest);
  as_graph(s, {}, [&] {
    multiply(s);
    multiply(s, other);
  });
  CHECK(fake::machine().launches.back() == numbers{fastest, fastest});
}

TEST_CASE("cublaslt: a product with a bias has its own entry and gets its bias pointer") {
  begin();
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
/// takes a millisecond. Returns whether the separate pass was the last one to run. However often
/// each is timed, the gradient must be added once.
bool take_gradient(stream& s) {
  constexpr int pass = 100;
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
        fake::enqueue(s.get(), pass);
        ++gradient;
      });
  CHECK(gradient == 4);
  return fake::machine().direct.back() == pass;
}

TEST_CASE("cublaslt: a bias gradient is fused if that is faster than a separate pass") {
  for (bool const slow : {false, true}) {
    CAPTURE(slow);
    begin();
    fake::bias_gradient_time = slow ? 9 : 0;
    stream s;
    auto& products = s.library<cublaslt>();
    CHECK(!take_gradient(s));  // untuned
    CHECK(fake::epilogue == CUBLASLT_EPILOGUE_BGRADB);
    products.tune(true);
    static_cast<void>(take_gradient(s));
    auto const timed = fake::machine().direct.size();
    products.tune(false);
    CHECK(take_gradient(s) == slow);
    CHECK(fake::machine().direct.size() == timed + (slow ? 2 : 1));
    auto const table =
        parallel::cuda::matmul_tuning::parse(to_text(products.tuning()), "what was kept");
    CHECK(table == products.tuning());
    stream resumed;
    resumed.library<cublaslt>().use(table);
    resumed.library<cublaslt>().tune(true);
    auto const direct_before = fake::machine().direct.size();
    CHECK(take_gradient(resumed) == slow);
    CHECK(fake::machine().direct.size() == direct_before + (slow ? 2 : 1));  // without timing
  }
  fake::bias_gradient_time = 0;
}

}  // namespace cublaslt_test
