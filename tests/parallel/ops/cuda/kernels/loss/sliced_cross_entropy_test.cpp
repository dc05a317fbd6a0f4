// The bodies of the kernels of sliced cross entropy on the host, against the reference loops and
// against cross_entropy of the whole vocabulary.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <parallel/ops/cuda/kernels/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_sliced_cross_entropy_test {

using namespace parallel;
using parallel::index;

/// Columns [first, first + columns) of each row.
template <class A>
std::vector<A> slice_of(std::vector<A> const& whole, index rows, index first, index columns) {
  index const total_columns = std::ssize(whole) / rows;
  std::vector<A> out(static_cast<std::size_t>(rows * columns));
  for (index m = 0; m < rows; ++m)
    std::copy_n(whole.begin() + m * total_columns + first, columns, out.begin() + m * columns);
  return out;
}

/// Types of the gradient and of the logits.
template <class T, class L = T>
struct types {
  using gradient = T;
  using logit = L;
};

/// The statistics of one rank, by the kernel.
template <class L, class A = accumulate_t<L>>
std::vector<A> statistics_of(std::vector<L> const& logits, std::vector<std::int32_t> const& labels,
                             ops::sliced_cross_entropy_options o, testing::thread_order order) {
  index const rows = std::ssize(labels);
  index const columns = std::ssize(logits) / rows;
  auto out = testing::poison<A>(static_cast<std::size_t>(4 * rows));
  testing::host_block::run_grid(
      static_cast<unsigned>(rows), 64, cuda::kernels::softmax_scratch<A, L>::bytes(columns, false),
      order,
      cuda::kernels::vocabulary_statistics<A, L>{out.data(), logits.data(), labels.data(), columns,
                                                 A(o.scale), o.first});
  return out;
}

template <class T>
constexpr double close = std::is_same_v<T, double> ? 1e-13
                         : std::is_same_v<T, bf16> ? 4e-3
                                                   : 2e-6;

/// Small gradients are compared relative to their own size, down to the rounding error of 1 -
/// probability.
template <class T>
void check_gradient(std::vector<T> const& actual, std::vector<T> const& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    auto const a = static_cast<double>(actual[i]);
    auto const e = static_cast<double>(expected[i]);
    CAPTURE(i);
    if (!(std::abs(a - e) <= 2 * close<T> * std::abs(e) + 0.1 * close<accumulate_t<T>>))
      CHECK(a == e);
  }
}

TEST_CASE_TEMPLATE("vocabulary_statistics kernel: it equals the reference for any slice and label",
                   T, float, bf16, double) {
  using A = accumulate_t<T>;
  for (index const columns : {1, 7, 300, 1025})
    for (index const first : {index{0}, index{900}}) {
      auto const v = static_cast<std::size_t>(columns);
      auto const logits = testing::normal_numbers<T>(4 * v, v, 3.0F);
      ops::sliced_cross_entropy_options const o{.scale = 0.5, .first = first, .vocabulary = 5000};
      std::vector<std::int32_t> const labels = {static_cast<std::int32_t>(first), -100,
                                                static_cast<std::int32_t>(first + columns - 1),
                                                static_cast<std::int32_t>(first + columns)};
      auto expected = testing::poison<A>(16);
      reference::stream ref_stream;
      ops::vocabulary_statistics(ref_stream, matrix_view<A>(expected.data(), {4, 4}),
                                 matrix_view<T const>(logits.data(), {4, columns}),
                                 vector_view<std::int32_t const>(labels.data(), {4}), o);
      using enum testing::thread_order;
      for (auto const order : {ascending, descending, shuffled}) {
        auto const actual = statistics_of(logits, labels, o, order);
        for (std::size_t i = 0; i < 16; ++i)
          if (i % 4 == 1)
            CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(close<A>));
          else
            CHECK(actual[i] == expected[i]);
      }
    }
}

TEST_CASE_TEMPLATE(
    "sliced_cross_entropy kernel: slices together equal cross_entropy of the whole vocabulary", Of,
    types<float>, types<bf16>, types<bf16, float>, types<double>) {
  using T = typename Of::gradient;
  using A = accumulate_t<T>;
  using L = typename Of::logit;
  constexpr index rows = 5, columns = 150, ranks = 3, whole = ranks * columns;
  auto logits = testing::normal_numbers<L>(rows * whole, 1, 3.0F);
  logits[7] = logits[200] = L(30);  // row 0: a tie between ranks, won by column 7
  logits[whole + 449] = L(30);
  for (index n = 0; n < columns; ++n)  // one rank's slice has probability 0 in row 3
    logits[static_cast<std::size_t>(3 * whole + n)] = L(-std::numeric_limits<A>::infinity());
  for (auto const& labels :
       {std::vector<std::int32_t>{7, 449, -100, 151, 0}, {200, 0, 299, 300, -100}}) {
    std::vector<T> expected(rows * whole);
    std::vector<A> expected_losses(rows);
    std::vector<std::uint8_t> expected_correct(rows);
    reference::stream ref_stream;
    ops::cross_entropy(ref_stream, matrix_view<T>(expected.data(), {rows, whole}),
                       vector_view<A>(expected_losses.data(), {rows}),
                       vector_view<std::uint8_t>(expected_correct.data(), {rows}),
                       matrix_view<L const>(logits.data(), {rows, whole}),
                       vector_view<std::int32_t const>(labels.data(), {rows}), {.scale = 0.5});
    using enum testing::thread_order;
    for (auto const order : {ascending, descending, shuffled}) {
      std::vector<A> statistics;
      for (index r = 0; r < ranks; ++r) {
        auto const part =
            statistics_of(slice_of(logits, rows, r * columns, columns), labels,
                          {.scale = 0.5, .first = r * columns, .vocabulary = whole}, order);
        for (auto const number : part) statistics.push_back(number);
      }
      for (index r = 0; r < ranks; ++r) {
        auto const here_logits = slice_of(logits, rows, r * columns, columns);
        auto gradient = testing::poison<T>(rows * columns);
        auto losses = testing::poison<A>(rows);
        std::vector<std::uint8_t> correct(rows, 77);
        cuda::kernels::sliced_cross_entropy<T, A, L> body{gradient.data(),
                                                          losses.data(),
                                                          correct.data(),
                                                          here_logits.data(),
                                                          labels.data(),
                                                          statistics.data(),
                                                          ranks,
                                                          rows,
                                                          columns,
                                                          A(0.5),
                                                          -100,
                                                          r * columns,
                                                          whole};
        testing::host_block::run_grid(rows, 64, sizeof(ops::detail::joined_statistics), order,
                                      body);
        check_gradient(gradient, slice_of(expected, rows, r * columns, columns));
        testing::check_close(losses, expected_losses, 2 * close<A>);
        CHECK(correct == expected_correct);
        if constexpr (std::is_same_v<T, L>) {
          auto in_place = here_logits;
          body.dlogits = in_place.data();
          body.logits = in_place.data();
          testing::host_block::run_grid(rows, 64, sizeof(ops::detail::joined_statistics), order,
                                        body);
          CHECK(in_place == gradient);
        }
        body.dlogits = nullptr;
        auto const with_gradient = losses;
        testing::host_block::run_grid(rows, 64, sizeof(ops::detail::joined_statistics), order,
                                      body);
        CHECK(losses == with_gradient);
      }
    }
  }
}

TEST_CASE(
    "sliced_cross_entropy kernels: NaN on one rank and a label outside of the vocabulary give "
    "NaN") {
  constexpr index columns = 100;
  auto const check = [&](std::vector<float> const& logits, std::int32_t label) {
    std::vector<std::int32_t> const labels = {label};
    std::vector<float> statistics;
    for (index r = 0; r < 2; ++r) {
      auto const part =
          statistics_of(slice_of(logits, 1, r * columns, columns), labels,
                        {.first = r * columns, .vocabulary = 200}, testing::thread_order::shuffled);
      for (auto const number : part) statistics.push_back(number);
    }
    auto const here_logits = slice_of(logits, 1, 0, columns);
    std::vector<float> gradient(columns), loss(1);
    std::vector<std::uint8_t> correct(1, 77);
    testing::host_block::run_grid(
        1, 32, sizeof(ops::detail::joined_statistics), testing::thread_order::shuffled,
        cuda::kernels::sliced_cross_entropy<float, float, float>{
            gradient.data(), loss.data(), correct.data(), here_logits.data(), labels.data(),
            statistics.data(), 2, 1, columns, 1.0F, -100, 0, 200});
    CHECK(std::isnan(loss[0]));
    CHECK(correct[0] == 0);
    for (float const g : gradient) CHECK(std::isnan(g));
  };
  auto logits = testing::normal_numbers<float>(200, 1);
  for (std::int32_t const label : {-1, 200, 1 << 30}) check(logits, label);
  logits[150] = std::numeric_limits<float>::quiet_NaN();
  for (std::int32_t const label : {3, 150, 199}) check(logits, label);
}

}  // namespace cuda_sliced_cross_entropy_test
