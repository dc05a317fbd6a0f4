// Logits of a router: one order of sums on every device, for every number of rows and threads.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <parallel/ops/host/experts/routing.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/support/files.hpp>

#include "parallel/ops/support.hpp"

namespace router_logits_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;

/// The product of row m of x and row e of the weight, by eight sums that are written down one by
/// one.
template <class T>
accumulate_t<T> product(std::vector<T> const& x, std::vector<T> const& weight, ptrdiff_t width,
                        ptrdiff_t m, ptrdiff_t e) {
  using sum = std::conditional_t<std::is_integral_v<T>, T, double>;
  std::vector<sum> s(8);
  for (std::size_t lane = 0; lane < 8; ++lane)
    for (auto n = static_cast<ptrdiff_t>(lane); n < width; n += 8)
      s[lane] += sum(x[static_cast<std::size_t>(m * width + n)]) *
                 sum(weight[static_cast<std::size_t>(e * width + n)]);
  return static_cast<accumulate_t<T>>(((s[0] + s[4]) + (s[2] + s[6])) +
                                      ((s[1] + s[5]) + (s[3] + s[7])));
}

TEST_CASE_TEMPLATE(
    "router_logits: reference and host have the bits of eight sums that are added by halves, "
    "whatever rows and threads there are",
    T, float, bf16, double, std::uint64_t) {
  using A = accumulate_t<T>;
  for (ptrdiff_t const width : {1, 3, 7, 8, 9, 16, 31, 100, 1025})
    for (ptrdiff_t const experts : {1, 5, 64}) {
      CAPTURE(width);
      CAPTURE(experts);
      ptrdiff_t const rows = 37;
      auto const x = random<T>(rows * width, 1);
      auto const weight = random<T>(experts * width, 2);
      std::vector<A> expected;
      for (ptrdiff_t m = 0; m < rows; ++m)
        for (ptrdiff_t e = 0; e < experts; ++e) expected.push_back(product(x, weight, width, m, e));
      auto const run = [&](auto& s, ptrdiff_t first, std::vector<A>& logits) {
        auto const some = matrix(x, rows).slice(first, first + std::ssize(logits) / experts);
        ops::router_logits(s, matrix(logits, some.extent(0)), some, matrix(weight, experts));
      };
      std::vector<A> logits(expected.size());
      on_reference([&](auto& s) { run(s, 0, logits); });
      CHECK(same_bits(logits, expected));
      for (int const threads : {1, 2, 3}) {
        std::vector<A> got(expected.size());
        on_host(threads, [&](auto& s) { run(s, 0, got); });
        CHECK(same_bits(got, expected));
      }
      for (ptrdiff_t const m : {0, 17, 36}) {  // rows without the others
        std::vector<A> got(static_cast<std::size_t>(experts));
        on_host(1, [&](auto& s) { run(s, m, got); });
        auto const begin = expected.begin() + m * experts;
        CHECK(same_bits(got, std::vector<A>(begin, begin + experts)));
      }
    }
}

TEST_CASE_TEMPLATE("router_logits: every instruction set gives the same bits", T, float, bf16) {
  namespace host = parallel::host;
  for (ptrdiff_t const width : {1, 8, 13, 300})
    for (int const lanes : {4, 8, 16}) {
      if (lanes > host::simd::native_lanes()) continue;
      CAPTURE(lanes);
      constexpr ptrdiff_t rows = 5, experts = 7;
      auto const x = random<T>(rows * width, 3), weight = random<T>(experts * width, 4);
      std::vector<float> got(rows * experts), expected(got.size());
      host::simd::dispatch_to(
          lanes, [&](auto l) __attribute__((always_inline)) {
            host::detail::write_logits<l>(got.data(), x.data(), weight.data(), 0, rows, experts,
                                          width);
          });
      on_reference([&](auto& s) {
        ops::router_logits(s, matrix(expected, rows), matrix(x, rows), matrix(weight, experts));
      });
      CHECK(same_bits(got, expected));
    }
}

TEST_CASE("router_logits: shapes that do not belong together are refused by name") {
  std::vector<float> logits(6), x(8), weight(12);
  auto const message_of = [&](ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t width) {
    return test::message_of([&] {
      parallel::reference::stream s;
      ops::router_logits(s, {logits.data(), {rows, columns}},
                         parallel::matrix_view<float>(x.data(), {2, 4}),
                         {weight.data(), {3, width}});
    });
  };
  CHECK(message_of(2, 3, 4) == "");
  CHECK(message_of(1, 3, 4) ==
        "ops::router_logits: the number of rows of logits is 1, but that of x is 2; the two must "
        "be the same");
  CHECK(message_of(2, 2, 4) ==
        "ops::router_logits: the number of columns of logits is 2, but the number of rows of the "
        "weight is 3; the two must be the same");
  CHECK(message_of(2, 3, 3) ==
        "ops::router_logits: the width of x is 4, but that of the weight is 3; the two must be the "
        "same");
}

TEST_CASE("router_logits: the meta device counts a product and a sum for each term") {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const x(nullptr, {5, 7}), weight(nullptr, {3, 7});
  ops::router_logits(s, {nullptr, {5, 3}}, x, weight);
  CHECK(s.operations() == 2 * 5 * 7 * 3);
}

}  // namespace router_logits_test
