// The bodies of the kernels of cross_entropy and of its sliced form on the host, against the
// reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/loss/cross_entropy.hpp>
#include <parallel/ops/cuda/kernels/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_cross_entropy_test {

using namespace parallel;
using parallel::index;

template <class A>
constexpr A infinity = std::numeric_limits<A>::infinity();

/// The outputs of cross_entropy, in vectors that begin as poison.
template <class T, class A = accumulate_t<T>>
struct results {
  results(index rows, index columns)
      : gradient(testing::poison<T>(static_cast<std::size_t>(rows * columns))),
        losses(testing::poison<A>(static_cast<std::size_t>(rows))),
        correct(static_cast<std::size_t>(rows), 77) {}

  std::vector<T> gradient;
  std::vector<A> losses;
  std::vector<std::uint8_t> correct;
};

/// Types of the gradient and of the logits.
template <class T, class L = T>
struct types {
  using gradient = T;
  using logit = L;
};

template <class T, class L>
results<T> reference_of(std::vector<L> const& logits, std::vector<std::int32_t> const& labels,
                        ops::cross_entropy_options options) {
  using A = accumulate_t<T>;
  index const rows = std::ssize(labels);
  index const columns = std::ssize(logits) / rows;
  results<T> out(rows, columns);
  reference::stream ref_stream;
  ops::cross_entropy(ref_stream, matrix_view<T>(out.gradient.data(), {rows, columns}),
                     vector_view<A>(out.losses.data(), {rows}),
                     vector_view<std::uint8_t>(out.correct.data(), {rows}),
                     matrix_view<L const>(logits.data(), {rows, columns}),
                     vector_view<std::int32_t const>(labels.data(), {rows}), options);
  return out;
}

/// The kernel's body; rows begin `begin` elements after the start of memory.
template <class T, class L, class Check>
void run(std::vector<L> const& logits, std::vector<std::int32_t> const& labels,
         ops::cross_entropy_options options, std::size_t begin, bool keep, Check const& check) {
  using A = accumulate_t<T>;
  index const rows = std::ssize(labels);
  index const columns = std::ssize(logits) / rows;
  std::vector<L> placed(begin);
  placed.insert(placed.end(), logits.begin(), logits.end());
  for (unsigned const threads : {32U, 64U})
    for (auto const order : {testing::thread_order::ascending, testing::thread_order::descending,
                             testing::thread_order::shuffled}) {
      results<T> out(rows, columns);
      std::vector<T> gradient(begin + out.gradient.size() + 4, T(-77.0F));
      testing::host_block::run_grid(
          static_cast<unsigned>(rows), threads,
          cuda::kernels::softmax_scratch<A, L>::bytes(columns, keep), order,
          cuda::kernels::cross_entropy<T, A, L>{
              gradient.data() + begin, out.losses.data(), out.correct.data(), placed.data() + begin,
              labels.data(), columns, static_cast<A>(options.scale), options.ignore, keep});
      CHECK(gradient.back() == T(-77.0F));
      std::copy_n(gradient.begin() + static_cast<index>(begin), out.gradient.size(),
                  out.gradient.begin());
      check(out);
    }
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

TEST_CASE_TEMPLATE(
    "cross_entropy kernel: losses, accuracy and gradient equal the reference for every shape", Of,
    types<float>, types<bf16>, types<bf16, float>, types<double>) {
  using T = typename Of::gradient;
  using A = accumulate_t<T>;
  using L = typename Of::logit;
  for (index const columns : {1, 5, 64, 130, 1003, 2048})
    for (std::size_t const begin : {0, 1})
      for (bool const keep : {false, true}) {
        auto const v = static_cast<std::size_t>(columns);
        auto const logits = testing::normal_numbers<L>(4 * v, v, 3.0F, 20.0F);
        auto const top = std::max_element(logits.begin(), logits.begin() + columns);
        std::vector<std::int32_t> const labels = {static_cast<std::int32_t>(top - logits.begin()),
                                                  0, -100, static_cast<std::int32_t>(columns - 1)};
        ops::cross_entropy_options const options{.scale = 0.7};
        auto const expected = reference_of<T>(logits, labels, options);
        run<T>(logits, labels, options, begin, keep, [&](results<T> const& out) {
          testing::check_close(out.losses, expected.losses, 2 * close<A>);
          CHECK(out.correct == expected.correct);
          check_gradient(out.gradient, expected.gradient);
        });
      }
}

TEST_CASE("cross_entropy kernel: the first of equal logits is the prediction, at any position") {
  std::vector<float> logits(300, 0.0F);
  for (std::size_t const n : {37, 38, 200, 299}) logits[n] = 2.0F;
  for (std::int32_t const label : {37, 38, 200, 299, 0})
    run<float>(logits, {label}, {}, 0, false,
               [&](results<float> const& out) { CHECK(out.correct[0] == (label == 37)); });
}

TEST_CASE("cross_entropy kernel: a sure prediction keeps the digits of its label's gradient") {
  std::vector<float> logits(70, -20.0F);
  logits[68] = 0.0F;
  double const rest = 69 * std::exp(-20.0);
  run<float>(logits, {68}, {}, 0, true, [&](results<float> const& out) {
    CHECK(out.gradient[68] == doctest::Approx(-rest / (1 + rest)).epsilon(1e-4));
    CHECK(out.losses[0] == doctest::Approx(std::log1p(rest)).epsilon(1e-4));
  });
}

TEST_CASE(
    "cross_entropy kernel: -infinity has probability 0, and NaN and +infinity give a loss of NaN") {
  std::vector<float> logits(200, -infinity<float>);
  logits[150] = 1.0F;
  logits[3] = 1.0F;
  run<float>(logits, {150}, {}, 0, true, [](results<float> const& out) {
    CHECK(out.losses[0] == doctest::Approx(std::log(2.0)));
    CHECK(out.correct[0] == 0);
    CHECK(out.gradient[3] == 0.5F);
    CHECK(out.gradient[150] == -0.5F);
    CHECK(out.gradient[0] == 0.0F);
  });
  for (float const wrong : {std::numeric_limits<float>::quiet_NaN(), infinity<float>})
    for (std::size_t const position : {0, 77, 150, 199}) {
      auto broken = logits;
      broken[position] = wrong;
      run<float>(broken, {150}, {}, 0, position == 77, [](results<float> const& out) {
        CHECK(std::isnan(out.losses[0]));
        CHECK(out.correct[0] == 0);
      });
    }
  run<float>(std::vector<float>(64, -infinity<float>), {5}, {}, 0, true,
             [](results<float> const& out) { CHECK(std::isnan(out.losses[0])); });
}

TEST_CASE("cross_entropy kernel: a label outside of the vocabulary gives NaN") {
  for (std::int32_t const label : {-1, 100, 1 << 30})
    run<bf16>(testing::normal_numbers<bf16>(100, 3), {label}, {}, 0, true,
              [](results<bf16> const& out) {
                CHECK(std::isnan(out.losses[0]));
                CHECK(out.correct[0] == 0);
                for (bf16 const g : out.gradient) CHECK(std::isnan(static_cast<float>(g)));
              });
}

TEST_CASE_TEMPLATE("cross_entropy kernel: the gradient may overwrite the logits, or be left out", T,
                   float, bf16) {
  constexpr index rows = 3, columns = 333;
  std::vector<std::int32_t> const labels = {332, 0, 100};
  for (std::size_t const begin : {0, 1})  // rows aligned and not
    for (bool const keep : {false, true})
      for (auto const order : {testing::thread_order::ascending, testing::thread_order::shuffled}) {
        auto const logits = testing::normal_numbers<T>(begin + rows * columns, 1, 2.0F);
        results<T> apart(rows, columns), in_place(rows, columns), alone(rows, columns);
        auto overwritten = logits;
        using body = cuda::kernels::cross_entropy<T, float, T>;
        auto const run_body = [&](results<T>& out, T const* from, T* to) {
          testing::host_block::run_grid(
              rows, 32, cuda::kernels::softmax_scratch<float, T>::bytes(columns, keep), order,
              body{to, out.losses.data(), out.correct.data(), from, labels.data(), columns, 1.0F,
                   -100, keep});
        };
        run_body(apart, logits.data() + begin, apart.gradient.data());
        run_body(in_place, overwritten.data() + begin, overwritten.data() + begin);
        run_body(alone, logits.data() + begin, nullptr);
        std::copy(overwritten.begin() + static_cast<index>(begin), overwritten.end(),
                  in_place.gradient.begin());
        CHECK(in_place.gradient == apart.gradient);
        CHECK(in_place.losses == apart.losses);
        CHECK(in_place.correct == apart.correct);
        CHECK(alone.losses == apart.losses);
        CHECK(alone.correct == apart.correct);
      }
}

/// Columns [first, first + columns) of each row.
template <class A>
std::vector<A> slice_of(std::vector<A> const& whole, index rows, index first, index columns) {
  index const total_columns = std::ssize(whole) / rows;
  std::vector<A> out(static_cast<std::size_t>(rows * columns));
  for (index m = 0; m < rows; ++m)
    std::copy_n(whole.begin() + m * total_columns + first, columns, out.begin() + m * columns);
  return out;
}

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

TEST_CASE_TEMPLATE("vocabulary_statistics kernel: equals the reference for any slice and label", T,
                   float, bf16, double) {
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
    auto const expected = reference_of<T>(logits, labels, {.scale = 0.5});
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
        check_gradient(gradient, slice_of(expected.gradient, rows, r * columns, columns));
        testing::check_close(losses, expected.losses, 2 * close<A>);
        CHECK(correct == expected.correct);
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

}  // namespace cuda_cross_entropy_test
