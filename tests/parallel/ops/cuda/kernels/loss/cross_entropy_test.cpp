// The body of cross_entropy's kernel on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/loss/cross_entropy.hpp>
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

}  // namespace cuda_cross_entropy_test
