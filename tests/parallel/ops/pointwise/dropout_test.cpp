// dropout: the mask is Philox's, element by element, at any beginning of a block.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <parallel/ops/host/pointwise/dropout.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/pointwise/dropout.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace dropout_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;
using parallel::philox;

TEST_CASE("dropout: an element is kept iff its uniform number is at least p") {
  philox const random(11, 22, 33);
  std::vector<double> const x(1000, 3.0);
  std::vector<double> y(1000);
  on_reference([&](auto& s) {
    ops::dropout(s, std::span(y), std::span(x),
                 {.probability = 0.25F, .random = random, .first_element = 5});
  });
  int kept_count = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    bool const keep = random.uniform(5 + i) >= 0.25F;
    CHECK(y[i] == (keep ? 4.0 : 0.0));
    kept_count += keep ? 1 : 0;
  }
  CHECK(std::abs(kept_count - 750) < 60);
}

TEST_CASE_TEMPLATE(
    "dropout: the host equals the reference bit for bit, also across 2^32 and in place", T, float,
    bf16, double) {
  philox const source(0x123456789abcdefULL, 77, 5);
  for (auto const size : odd_sizes)
    for (std::uint64_t const first :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6}, std::uint64_t{0x3fffffff3ULL}}) {
      CAPTURE(size);
      CAPTURE(first);
      ops::dropout_options const options{
          .probability = 0.1F, .random = source, .first_element = first};
      compare_host(
          {},
          [&](auto& s, auto apart, auto in_place) {
            ops::dropout(s, apart, in_place, options);
            ops::dropout(s, in_place, in_place, options);
          },
          random<T>(size, 1), random<T>(size, 2));
    }
}

TEST_CASE("dropout: a part of an array drops the same elements as the whole array") {
  auto const x = random<float>(1000, 1);
  std::vector<float> whole(1000), part(300);
  on_host(1, [&](auto& s) {
    ops::dropout(s, std::span(whole), std::span(x),
                 {.probability = 0.5F, .random = philox(1, 2), .first_element = 10});
    ops::dropout(s, std::span(part), std::span(x).subspan(333, 300),
                 {.probability = 0.5F, .random = philox(1, 2), .first_element = 343});
  });
  CHECK(same_bits(part, std::vector<float>(whole.begin() + 333, whole.begin() + 633)));
}

TEST_CASE("dropout: some columns of a matrix drop the same elements as the whole matrix") {
  constexpr std::size_t rows = 70, whole = 23, first = 5;
  auto const x = random<float>(rows * whole, 1);
  std::vector<float> y(x.size());
  auto const options = [](std::uint64_t begin) {
    return ops::dropout_options{
        .probability = 0.5F, .random = philox(1, 2), .first_element = begin};
  };
  on_host(1, [&](auto& s) { ops::dropout(s, std::span(y), std::span(x), options(100)); });
  for (std::size_t const columns : {1U, 4U, 13U, 18U}) {
    CAPTURE(columns);
    std::vector<float> part, expected;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = first; c < first + columns; ++c) {
        part.push_back(x[r * whole + c]);
        expected.push_back(y[r * whole + c]);
      }
    auto column_options = options(100 + first);
    column_options.columns = columns;
    column_options.whole_columns = whole;
    std::vector<float> a(part.size()), b(part.size());
    on_host(2, [&](auto& s) { ops::dropout(s, std::span(a), std::span(part), column_options); });
    on_reference([&](auto& s) { ops::dropout(s, std::span(b), std::span(part), column_options); });
    CHECK(same_bits(a, expected));
    CHECK(same_bits(b, expected));
  }
}

TEST_CASE_TEMPLATE("dropout: probability 0 copies, probability 1 leaves zeros", T, float, bf16,
                   double) {
  auto const x = random<T>(77, 1);
  std::vector<T> copied(77), nothing(77, T(1.0F));
  on_host(1, [&](auto& s) {
    ops::dropout(s, std::span(copied), std::span(x), {.probability = 0.0F});
    ops::dropout(s, std::span(nothing), std::span(x), {.probability = 1.0F});
  });
  CHECK(same_bits(copied, x));
  CHECK(same_bits(nothing, std::vector<T>(77)));
}

TEST_CASE("dropout: a probability outside of [0, 1] is refused") {
  std::vector<float> x(3);
  std::string message;
  try {
    on_reference(
        [&](auto& s) { ops::dropout(s, std::span(x), std::span(x), {.probability = 1.5F}); });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::dropout: the probability is 1.5, but must be in [0, 1]");
}

TEST_CASE("dropout: the meta device counts one operation per element, none for probability 0") {
  parallel::meta::stream s;
  std::span<bf16> const x(static_cast<bf16*>(nullptr), 7);
  ops::dropout(s, x, x, {.probability = 0.0F});
  ops::dropout(s, x, x, {.probability = 0.5F});
  CHECK(s.operations() == 7);
}

}  // namespace dropout_test
