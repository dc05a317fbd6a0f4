// rope: against rotations in the complex plane, and the host against the reference.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <vector>

#include <parallel/ops/host/attention/rope.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace rope_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;
using parallel::index;

std::vector<double> frequencies(index head_dim) {
  std::vector<double> out;
  for (index i = 0; i < head_dim / 2; ++i)
    out.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  return out;
}

/// `heads` heads that begin `skip` elements into rows with 3 elements more.
template <class T>
ops::heads_view<T> view(std::vector<T>& data, index batch, index sequence, index heads, index dim,
                        index skip = 1) {
  index const row = heads * dim + 3;
  return {data.data() + skip, batch, sequence, heads, dim, sequence * row, row};
}

TEST_CASE("rope: the reference rotates pairs of elements in the complex plane") {
  index const dim = 6;
  auto data = random<double>(2 * 5 * (2 * dim + 3), 1);
  auto const initial = data;
  auto const turns = frequencies(dim);
  auto const x = view(data, 2, 5, 2, dim);
  parallel::reference::stream s;
  ops::rope(s, x, {.frequencies = turns, .first = 70});
  auto old = initial;
  auto const original = view(old, 2, 5, 2, dim);
  for (index b = 0; b < 2; ++b)
    for (index position = 0; position < 5; ++position)
      for (index h = 0; h < 2; ++h)
        for (index i = 0; i < dim / 2; ++i) {
          std::complex<double> const point(original.row(b, position, h)[i],
                                           original.row(b, position, h)[i + 3]);
          auto const turned = point * std::polar(1.0, static_cast<double>(70 + position) *
                                                          turns[static_cast<std::size_t>(i)]);
          CHECK(std::abs(turned.real() - x.row(b, position, h)[i]) < 1e-14);
          CHECK(std::abs(turned.imag() - x.row(b, position, h)[i + 3]) < 1e-14);
        }
  for (std::size_t r = 0; r < 10; ++r) {  // elements outside of heads are unchanged
    CHECK(data[r * 15] == initial[r * 15]);
    CHECK(data[r * 15 + 13] == initial[r * 15 + 13]);
  }
}

TEST_CASE("rope: with few frequencies the end of each head stays as it is") {
  index const dim = 7;
  auto const turns = frequencies(4);  // of the first 4 elements
  auto data = random<double>(3 * (2 * dim + 3), 1);
  auto const initial = data;
  auto first_elements = std::vector<double>();
  auto const x = view(data, 1, 3, 2, dim);
  for (index position = 0; position < 3; ++position)
    for (index h = 0; h < 2; ++h)
      first_elements.insert(first_elements.end(), x.row(0, position, h), x.row(0, position, h) + 4);
  parallel::reference::stream s;
  ops::rope(s, ops::heads_view<double>{first_elements.data(), 1, 3, 2, 4, 24, 8},
            {.frequencies = turns, .first = 70});
  ops::rope(s, x, {.frequencies = turns, .first = 70});
  auto old = initial;
  auto const original = view(old, 1, 3, 2, dim);
  for (index position = 0; position < 3; ++position)
    for (index h = 0; h < 2; ++h)
      for (index i = 0; i < dim; ++i)
        CHECK(x.row(0, position, h)[i] ==
              (i < 4 ? first_elements[static_cast<std::size_t>(8 * position + 4 * h + i)]
                     : original.row(0, position, h)[i]));
}

TEST_CASE(
    "rope: scores of rotated heads depend on the distance alone, and the inverse is the gradient") {
  index const dim = 8;
  auto const turns = frequencies(dim);
  parallel::reference::stream s;
  auto const score = [&](index i, index j) {
    auto q = random<double>(dim + 3, 2);
    auto k = random<double>(dim + 3, 3);
    ops::rope(s, view(q, 1, 1, 1, dim), {.frequencies = turns, .first = i});
    ops::rope(s, view(k, 1, 1, 1, dim), {.frequencies = turns, .first = j});
    double sum = 0;
    for (std::size_t d = 1; d <= 8; ++d) sum += q[d] * k[d];
    return sum;
  };
  CHECK(std::abs(score(9, 4) - score(1005, 1000)) < 1e-12);
  CHECK(std::abs(score(9, 4) - score(9, 5)) > 1e-3);
  auto x = random<double>(7 * (dim + 3), 4);
  auto const initial = x;
  ops::rope(s, view(x, 1, 7, 1, dim), {.frequencies = turns});
  ops::rope_backward(s, view(x, 1, 7, 1, dim), {.frequencies = turns});
  CHECK(excess(x, initial, 0.0) < 1e-15);
}

TEST_CASE(
    "rope: with growths lengths grow with the position, and scores still depend on the distance") {
  index const dim = 8;
  auto const turns = frequencies(dim);
  std::vector<double> const growths{-0.3, -0.2, -0.1, 0.0};
  parallel::reference::stream s;
  auto const rotate_at = [&](std::vector<double>& x, index position, double sign) {
    ops::rope(s, view(x, 1, 1, 1, dim),
              {.frequencies = turns,
               .first = position,
               .growths = growths,
               .origin = 5,
               .growth_sign = sign});
  };
  for (double const sign : {1.0, -1.0}) {
    auto x = random<double>(dim + 3, 2);
    auto const initial = x;
    rotate_at(x, 9, sign);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(std::hypot(x[1 + i], x[5 + i]) ==
            doctest::Approx(std::exp(sign * 4 * growths[i]) *
                            std::hypot(initial[1 + i], initial[5 + i])));
  }
  auto const score = [&](index i, index j) {
    auto q = random<double>(dim + 3, 2);
    auto k = random<double>(dim + 3, 3);
    rotate_at(q, i, 1.0);
    rotate_at(k, j, -1.0);
    double sum = 0;
    for (std::size_t d = 1; d <= 8; ++d) sum += q[d] * k[d];
    return sum;
  };
  CHECK(std::abs(score(9, 4) - score(25, 20)) < 1e-12);
  // <y', rope(x)> = <rope_backward(y'), x>
  auto x = random<double>(7 * (dim + 3), 4);
  auto y = random<double>(7 * (dim + 3), 6);
  auto const inner = [&](auto const& a, auto const& b) {
    double sum = 0;
    for (index p = 0; p < 7; ++p)
      for (index d = 1; d <= dim; ++d) {
        auto const i = static_cast<std::size_t>(p * (dim + 3) + d);
        sum += a[i] * b[i];
      }
    return sum;
  };
  auto turned = x;
  auto back = y;
  ops::rope_options const options{.frequencies = turns, .growths = growths, .origin = 3};
  ops::rope(s, view(turned, 1, 7, 1, dim), options);
  ops::rope_backward(s, view(back, 1, 7, 1, dim), options);
  CHECK(std::abs(inner(y, turned) - inner(back, x)) < 1e-12);
}

TEST_CASE_TEMPLATE("rope: the host agrees with the reference for any size and number of threads", T,
                   float, bf16, double) {
  for (index const dim : {2, 6, 16, 30, 64, 128})
    for (index const heads : {1, 3, 12}) {
      CAPTURE(dim);
      CAPTURE(heads);
      auto const turns = frequencies(heads == 3 && dim > 2 ? dim - 2 : dim);  // some of a head
      std::vector<double> const growths(turns.size(), -0.01);  // up to a fifth longer
      auto expected = random<T>(2 * 37 * (heads * dim + 3), 5);
      auto one = expected;
      auto two = expected;
      auto const turn = [&](auto& s, std::vector<T>& data) {
        ops::rope(s, view(data, 2, 37, heads, dim), {.frequencies = turns, .first = 5000});
        ops::rope_backward(s, view(data, 2, 37, heads, dim),
                           {.frequencies = turns, .first = 11, .scale = 1.25});
        ops::rope(s, view(data, 2, 37, heads, dim),
                  {.frequencies = turns, .growths = growths, .origin = 18, .growth_sign = -1.0});
      };
      on_reference([&](auto& s) { turn(s, expected); });
      on_host(1, [&](auto& s) { turn(s, one); });
      on_host(2, [&](auto& s) { turn(s, two); });
      // three rotations, each of two products and a sum, of numbers up to about 6
      CHECK(excess(one, expected, 0.0) <= 12 * 6 * unit<T>);
      CHECK(same_bits(one, two));
    }
}

TEST_CASE("rope: heads that cannot be rotated are refused, and the meta device counts operations") {
  parallel::meta::stream s;
  ops::heads_view<float> const odd{nullptr, 1, 2, 1, 3, 6, 3};
  std::vector<double> const turns(2);
  CHECK_THROWS_WITH_AS(
      ops::rope(s, odd, {.frequencies = turns}),
      "ops::rope: 2 frequencies turn that many pairs of elements, but head_dim is 3",
      parallel::error);
  ops::heads_view<float> const six_wide{nullptr, 1, 2, 1, 6, 12, 6};
  CHECK_THROWS_WITH_AS(
      ops::rope_backward(s, six_wide, {}),
      "ops::rope_backward: 0 frequencies turn that many pairs of elements, but head_dim is 6",
      parallel::error);
  std::vector<double> const three(3);
  CHECK_THROWS_WITH_AS(ops::rope(s, six_wide, {.frequencies = three, .growths = turns}),
                       "ops::rope: the number of growths is 2, but the number of frequencies is "
                       "3; the two must be the same",
                       parallel::error);
  ops::rope(s, six_wide, {.frequencies = three});
  CHECK(s.operations() == 2 * 3 * 6);
}

}  // namespace rope_test
