// The body of cross_entropy's kernel on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/cross_entropy.hpp>
#include <parallel/ops/reference/cross_entropy.hpp>

#include "support/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_cross_entropy_test {

using namespace parallel;
using parallel::index;

template <class A>
constexpr A infinity = std::numeric_limits<A>::infinity();

/// What cross_entropy writes, in vectors that begin as poison.
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

template <class T, class A = accumulate_t<T>>
results<T> reference_of(std::vector<A> const& logits, std::vector<std::int32_t> const& labels,
                        ops::cross_entropy_options options) {
  index const rows = std::ssize(labels);
  index const columns = std::ssize(logits) / rows;
  results<T> out(rows, columns);
  reference::stream here;
  ops::cross_entropy(here, matrix_view<T>(out.gradient.data(), {rows, columns}),
                     vector_view<A>(out.losses.data(), {rows}),
                     vector_view<std::uint8_t>(out.correct.data(), {rows}),
                     matrix_view<A const>(logits.data(), {rows, columns}),
                     vector_view<std::int32_t const>(labels.data(), {rows}), options);
  return out;
}

/// The kernel's body; rows begin `begin` elements after the start of memory.
template <class T, class Check, class A = accumulate_t<T>>
void run(std::vector<A> const& logits, std::vector<std::int32_t> const& labels,
         ops::cross_entropy_options options, std::size_t begin, bool keep, Check const& check) {
  index const rows = std::ssize(labels);
  index const columns = std::ssize(logits) / rows;
  std::vector<A> placed(begin);
  placed.insert(placed.end(), logits.begin(), logits.end());
  for (unsigned const threads : {32U, 64U})
    for (auto const order : {testing::thread_order::ascending, testing::thread_order::descending,
                             testing::thread_order::shuffled}) {
      results<T> out(rows, columns);
      std::vector<T> gradient(begin + out.gradient.size() + 4, T(-77.0F));
      testing::host_block::run_grid(
          static_cast<unsigned>(rows), threads,
          cuda::kernels::softmax_scratch<A>::bytes(columns, keep), order,
          cuda::kernels::cross_entropy<T, A>{
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
                         : std::is_same_v<T, bf16> ? 8e-3
                                                   : 2e-6;

TEST_CASE_TEMPLATE("losses, accuracy and gradient equal the reference for every shape", T, float,
                   bf16, double) {
  using A = accumulate_t<T>;
  for (index const columns : {1, 5, 64, 130, 1003, 2048})
    for (std::size_t const begin : {0, 1})
      for (bool const keep : {false, true}) {
        auto const v = static_cast<std::size_t>(columns);
        auto const logits = testing::normal_numbers<A>(4 * v, v, 3.0F, 20.0F);
        auto const top = std::max_element(logits.begin(), logits.begin() + columns);
        std::vector<std::int32_t> const labels = {static_cast<std::int32_t>(top - logits.begin()),
                                                  0, -100, static_cast<std::int32_t>(columns - 1)};
        ops::cross_entropy_options const options{.scale = 0.7};
        auto const expected = reference_of<T>(logits, labels, options);
        run<T>(logits, labels, options, begin, keep, [&](results<T> const& out) {
          testing::check_close(out.losses, expected.losses, 2 * close<A>);
          CHECK(out.correct == expected.correct);
          testing::check_close(out.gradient, expected.gradient, close<T>);
        });
      }
}

TEST_CASE("the first of equal logits is the prediction, wherever it lies") {
  std::vector<float> logits(300, 0.0F);
  for (std::size_t const n : {37, 38, 200, 299}) logits[n] = 2.0F;
  for (std::int32_t const label : {37, 38, 200, 299, 0})
    run<float>(logits, {label}, {}, 0, false,
               [&](results<float> const& out) { CHECK(out.correct[0] == (label == 37)); });
}

TEST_CASE("a sure prediction keeps the digits of its label's gradient") {
  std::vector<float> logits(70, -20.0F);
  logits[68] = 0.0F;
  double const rest = 69 * std::exp(-20.0);
  run<float>(logits, {68}, {}, 0, true, [&](results<float> const& out) {
    CHECK(out.gradient[68] == doctest::Approx(-rest / (1 + rest)).epsilon(1e-4));
    CHECK(out.losses[0] == doctest::Approx(std::log1p(rest)).epsilon(1e-4));
  });
}

TEST_CASE("logits of -infinity have probability 0; NaN and +infinity make a loss of NaN") {
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
    for (std::size_t const at : {0, 77, 150, 199}) {
      auto broken = logits;
      broken[at] = wrong;
      run<float>(broken, {150}, {}, 0, at == 77, [](results<float> const& out) {
        CHECK(std::isnan(out.losses[0]));
        CHECK(out.correct[0] == 0);
      });
    }
  run<float>(std::vector<float>(64, -infinity<float>), {5}, {}, 0, true,
             [](results<float> const& out) { CHECK(std::isnan(out.losses[0])); });
}

TEST_CASE("a label outside of the vocabulary cannot be overlooked") {
  for (std::int32_t const label : {-1, 100, 1 << 30})
    run<bf16>(testing::normal_numbers<float>(100, 3), {label}, {}, 0, true,
              [](results<bf16> const& out) {
                CHECK(std::isnan(out.losses[0]));
                CHECK(out.correct[0] == 0);
                for (bf16 const g : out.gradient) CHECK(std::isnan(static_cast<float>(g)));
              });
}

TEST_CASE("the gradient may take the place of the logits, or be left away") {
  auto const logits = testing::normal_numbers<float>(3 * 333, 1, 2.0F);
  std::vector<std::int32_t> const labels = {332, 0, 100};
  auto const expected = reference_of<float>(logits, labels, {});
  for (bool const keep : {false, true})
    for (auto const order : {testing::thread_order::ascending, testing::thread_order::shuffled}) {
      results<float> out(3, 333);
      auto in_place = logits;
      cuda::kernels::cross_entropy<float, float> body{in_place.data(),
                                                      out.losses.data(),
                                                      out.correct.data(),
                                                      in_place.data(),
                                                      labels.data(),
                                                      333,
                                                      1.0F,
                                                      -100,
                                                      keep};
      auto const bytes = cuda::kernels::softmax_scratch<float>::bytes(333, keep);
      testing::host_block::run_grid(3, 32, bytes, order, body);
      testing::check_close(in_place, expected.gradient, close<float>);
      results<float> alone(3, 333);
      in_place = logits;
      body.dlogits = nullptr;
      body.losses = alone.losses.data();
      testing::host_block::run_grid(3, 32, bytes, order, body);
      CHECK(in_place == logits);
      CHECK(alone.losses == out.losses);
    }
}

}  // namespace cuda_cross_entropy_test
