// cross_entropy against the formula, numeric derivatives, ignored labels, ties and NaN; with logits
// in the gradient's type and in the type in which it accumulates; and over a sliced vocabulary
// against the whole one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <parallel/ops/host/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace cross_entropy_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;
using parallel::matrix_view;
using std::ptrdiff_t;

double formula(std::vector<double> const& logits, std::size_t label, double scale) {
  double sum = 0.0;
  for (double const v : logits) sum += std::exp(scale * v);
  return std::log(sum) - scale * logits[label];
}

template <class T>
struct result {
  std::vector<T> gradient;
  std::vector<accumulate_t<T>> losses;
  std::vector<std::uint8_t> correct;
};

template <class T, class L, class Stream>
result<T> run(Stream& s, std::vector<L> const& logits, std::vector<std::int32_t> const& labels,
              double scale = 1.0) {
  auto const rows = std::ssize(labels);
  result<T> out{std::vector<T>(logits.size()), std::vector<accumulate_t<T>>(labels.size()),
                std::vector<std::uint8_t>(labels.size(), 9)};
  ops::cross_entropy(s, matrix(out.gradient, rows), vector(out.losses), vector(out.correct),
                     matrix(logits, rows), vector(labels), {.scale = scale});
  s.synchronize();
  return out;
}

/// Types of the gradient and of the logits.
template <class T, class L = T>
struct types {
  using gradient = T;
  using logit = L;
};

template <class T>
std::vector<T> numbers(std::vector<double> const& values) {
  std::vector<T> out;
  for (double const v : values) out.push_back(number<T>(v));
  return out;
}

TEST_CASE(
    "cross_entropy: the reference is logsumexp minus the label, its gradient the numeric "
    "derivative") {
  auto const logits = random<double>(9, 1);
  double const h = 1e-5;
  for (double const scale : {1.0, 0.25}) {
    parallel::reference::stream s;
    auto const got = run<double>(s, logits, {4}, scale);
    CHECK(std::abs(got.losses[0] - formula(logits, 4, scale)) <= 1e-14);
    for (std::size_t i = 0; i < 9; ++i) {
      auto up = logits, down = logits;
      up[i] += h;
      down[i] -= h;
      double const slope = (formula(up, 4, scale) - formula(down, 4, scale)) / (2.0 * h);
      CHECK(std::abs(got.gradient[i] - slope) <= 1e-9);
    }
  }
}

TEST_CASE_TEMPLATE(
    "cross_entropy: the host equals the reference for odd shapes, with any number of threads", Of,
    types<float>, types<bf16>, types<bf16, float>, types<double>) {
  using T = typename Of::gradient;
  using A = accumulate_t<T>;
  for (ptrdiff_t const rows : {0, 1, 3, 40})
    for (ptrdiff_t const columns : {1, 2, 15, 17, 100, 2048, 2049, 5003}) {
      CAPTURE(rows);
      CAPTURE(columns);
      auto const logits = random<typename Of::logit>(rows * columns, 1, 3.0);
      auto labels = random_ids(rows, static_cast<std::int32_t>(columns), 2);
      if (rows > 2) labels[1] = -100;
      parallel::reference::stream reference;
      parallel::host::stream one({.threads = 1}), two({.threads = 2});
      auto const a = run<T>(reference, logits, labels, 0.5F);
      auto const b = run<T>(one, logits, labels, 0.5F);
      auto const c = run<T>(two, logits, labels, 0.5F);
      CHECK(excess(b.losses, a.losses, 4.0 * unit<A>) <= 1e-6);
      CHECK(excess(b.gradient, a.gradient, std::max(2.0 * unit<T>, 40.0 * unit<A>)) <= 1e-9);
      CHECK(a.correct == b.correct);
      CHECK(same_bits(b.losses, c.losses));
      CHECK(same_bits(b.gradient, c.gradient));
      CHECK(b.correct == c.correct);
    }
}

TEST_CASE(
    "cross_entropy: losses and gradients of bf16 logits equal those of the same numbers in "
    "double") {
  auto const logits = random<bf16>(7 * 3001, 1, 4.0);
  auto const labels = random_ids(7, 3001, 2);
  std::vector<double> const exact(logits.begin(), logits.end());
  parallel::reference::stream reference;
  auto const expected = run<double>(reference, exact, labels, 0.5F);
  auto const check = [&](result<bf16> const& got) {
    CHECK(excess(got.losses, expected.losses, 4.0 * unit<float>) <= 1e-6);
    CHECK(excess(got.gradient, expected.gradient, unit<bf16> + 40.0 * unit<float>) <= 1e-30);
    CHECK(got.correct == expected.correct);
  };
  check(run<bf16>(reference, logits, labels, 0.5F));
  parallel::host::stream host;
  check(run<bf16>(host, logits, labels, 0.5F));
}

TEST_CASE_TEMPLATE("cross_entropy: an ignored row has no loss and no gradient and is not correct",
                   T, float, bf16, double) {
  auto const logits = random<accumulate_t<T>>(2 * 37, 1);
  parallel::host::stream s;
  auto const got = run<T>(s, logits, {-100, 3});
  CHECK(got.losses[0] == 0);
  CHECK(got.losses[1] > 0);
  CHECK(got.correct[0] == 0);
  for (std::size_t i = 0; i < 37; ++i) CHECK(got.gradient[i] == T{});
}

TEST_CASE_TEMPLATE("cross_entropy: on ties the lowest index is the prediction", T, float, bf16,
                   double) {
  auto const logits = numbers<T>({1, 5, 5, 0, 1, 5, 5, 0});
  parallel::reference::stream reference;
  parallel::host::stream host;
  std::vector<std::uint8_t> const expected{1, 0};
  CHECK(run<T>(reference, logits, {1, 2}).correct == expected);
  CHECK(run<T>(host, logits, {1, 2}).correct == expected);
}

TEST_CASE_TEMPLATE("cross_entropy: the gradient may overwrite the logits, or be left out", T, float,
                   bf16, double) {
  auto const initial = random<T>(3 * 2501, 1);
  std::vector<std::int32_t> const labels{7, -100, 2400};
  auto const check = [&](auto& s) {
    auto logits = initial;
    auto const separate = run<T>(s, logits, labels);
    std::vector<accumulate_t<T>> losses(3), losses_only(3);
    std::vector<std::uint8_t> correct(3);
    ops::cross_entropy(s, matrix_view<T>(), vector(losses_only), vector(correct), matrix(logits, 3),
                       vector(labels));
    s.synchronize();
    CHECK(same_bits(logits, initial));
    ops::cross_entropy(s, matrix(logits, 3), vector(losses), vector(correct), matrix(logits, 3),
                       vector(labels));
    s.synchronize();
    CHECK(same_bits(logits, separate.gradient));
    CHECK(same_bits(losses, separate.losses));
    CHECK(same_bits(losses_only, separate.losses));
    CHECK(correct == separate.correct);
  };
  parallel::reference::stream reference;
  parallel::host::stream host;
  check(reference);
  check(host);
}

TEST_CASE(
    "cross_entropy: large logits do not overflow, and a sure prediction keeps a tiny gradient") {
  std::vector<float> const logits{10000.0F, 9980.0F, -10000.0F};
  parallel::host::stream s;
  auto const got = run<float>(s, logits, {0});
  double const rest = std::exp(-20.0);
  CHECK(got.losses[0] == doctest::Approx(rest).epsilon(1e-6));
  CHECK(got.gradient[0] == doctest::Approx(-rest).epsilon(1e-6));
  CHECK(got.gradient[1] == doctest::Approx(rest).epsilon(1e-5));
  CHECK(got.gradient[2] == 0.0F);
  CHECK(got.correct[0] == 1);
}

TEST_CASE_TEMPLATE(
    "cross_entropy: logits of -infinity have probability 0, and NaN affects its own row only", T,
    float, bf16, double) {
  double const infinity = std::numeric_limits<double>::infinity();
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const logits = numbers<T>({-infinity, 1, 1, -infinity, 0, nan, 3, 0});
  auto const check = [](result<T> const& got) {
    CHECK(double(got.losses[0]) == doctest::Approx(std::log(2.0)));
    CHECK(got.gradient[0] == T{});
    CHECK(double(got.gradient[2]) == doctest::Approx(0.5));
    CHECK(std::isnan(got.losses[1]));
    CHECK(got.correct == std::vector<std::uint8_t>{1, 0});
    for (std::size_t i = 4; i < 8; ++i) CHECK(std::isnan(double(got.gradient[i])));
  };
  parallel::host::stream s;
  check(run<T>(s, logits, {1, 2}));
  // a first chunk without any finite number
  std::vector<T> late(5000, number<T>(-infinity));
  late[4999] = number<T>(2);
  auto const got = run<T>(s, late, {4999});
  CHECK(got.losses[0] == 0);
  CHECK(got.correct[0] == 1);
}

TEST_CASE("cross_entropy: a label outside of the vocabulary is an error that names it") {
  std::vector<float> const logits(6);
  parallel::host::stream s;
  std::string message;
  try {
    (void)run<float>(s, logits, {0, 3});
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::cross_entropy: label 3 of token 1 is outside of the vocabulary of 3");
}

TEST_CASE("cross_entropy: the meta device counts 4 operations per logit, and 4 for the gradient") {
  parallel::meta::stream s;
  matrix_view<float> const logits(nullptr, {2, 5});
  parallel::vector_view<float> const losses(nullptr, {2});
  parallel::vector_view<std::uint8_t> const correct(nullptr, {2});
  parallel::vector_view<std::int32_t> const labels(nullptr, {2});
  ops::cross_entropy(s, matrix_view<bf16>(), losses, correct, logits, labels);
  CHECK(s.operations() == 40);
  ops::cross_entropy(s, matrix_view<bf16>(nullptr, {2, 5}), losses, correct, logits, labels);
  CHECK(s.operations() == 120);
}

/// The same by sliced_cross_entropy with `ranks` slices of equal width; all ranks must compute the
/// same loss. If types allow it and `in_place` is set, the gradient overwrites the logits.
template <class T, class L, class Stream>
result<T> sliced(Stream& s, std::vector<L> const& logits, std::vector<std::int32_t> const& labels,
                 double scale, index ranks, bool in_place = false) {
  using A = accumulate_t<T>;
  auto const rows = std::ssize(labels);
  index const columns = std::ssize(logits) / rows;
  index const width = columns / ranks;
  std::vector<A> statistics(static_cast<std::size_t>(ranks * rows * 4));
  std::vector<std::vector<L>> parts;
  auto const options = [&](index r) {
    return ops::sliced_cross_entropy_options{
        .scale = scale, .first = r * width, .vocabulary = columns};
  };
  for (index r = 0; r < ranks; ++r) {
    auto& part = parts.emplace_back();
    for (index m = 0; m < rows; ++m)
      part.insert(part.end(), logits.begin() + m * columns + r * width,
                  logits.begin() + m * columns + (r + 1) * width);
    ops::vocabulary_statistics(s, matrix_view<A>(statistics.data() + r * rows * 4, {rows, 4}),
                               matrix_view<L const>(part.data(), {rows, width}), vector(labels),
                               options(r));
  }
  s.synchronize();
  result<T> out{std::vector<T>(logits.size()), {}, {}};
  for (index r = 0; r < ranks; ++r) {
    auto& part = parts[static_cast<std::size_t>(r)];
    std::vector<T> gradient(static_cast<std::size_t>(rows * width));
    matrix_view<T> to(gradient.data(), {rows, width});
    if constexpr (std::is_same_v<T, L>)
      if (in_place) to = matrix(part, rows);
    std::vector<A> losses(labels.size());
    std::vector<std::uint8_t> correct(labels.size(), 9);
    ops::sliced_cross_entropy(
        s, to, vector(losses), vector(correct), matrix_view<L const>(part.data(), {rows, width}),
        vector(labels), parallel::tensor_view<A const, 3>(statistics.data(), {ranks, rows, 4}),
        options(r));
    s.synchronize();
    if (r == 0) {
      out.losses = losses;
      out.correct = correct;
    }
    CHECK(same_bits(out.losses, losses));
    CHECK(out.correct == correct);
    for (index m = 0; m < rows; ++m)
      std::copy_n(to.data() + m * width, width, out.gradient.begin() + m * columns + r * width);
  }
  return out;
}

TEST_CASE_TEMPLATE(
    "sliced_cross_entropy: slices give the loss, gradient and accuracy of the whole vocabulary", Of,
    types<double>, types<float>, types<bf16>, types<bf16, float>) {
  using T = typename Of::gradient;
  using L = typename Of::logit;
  index const rows = 37;
  index const columns = 240;
  for (double const scale : {1.0, 0.5}) {
    auto logits = random<L>(rows * columns, 3, 4.0);
    auto labels = random_ids(rows, static_cast<std::int32_t>(columns), 5);
    labels[3] = -100;
    // every third row has its label as the greatest logit, in ties with a later and with an earlier
    // column
    for (std::size_t m = 0; m < labels.size(); m += 3)
      if (labels[m] >= 0) logits[m * columns + static_cast<std::size_t>(labels[m])] = number<L>(30);
    logits[columns - 1] = number<L>(30);
    logits[6 * columns] = number<L>(30);
    parallel::reference::stream reference;
    auto const expected = run<T>(reference, logits, labels, scale);
    double const error = std::is_same_v<T, double> ? 1e-14 : 4 * unit<float>;
    for (index const ranks : {1, 2, 3, 5, 8}) {
      CAPTURE(ranks);
      auto const compare = [&](result<T> const& got) {
        CHECK(excess(got.losses, expected.losses, error) <= 8 * error);
        CHECK(excess(got.gradient, expected.gradient, 4 * unit<T>) <= 4 * error);
        CHECK(got.correct == expected.correct);
      };
      compare(sliced<T>(reference, logits, labels, scale, ranks));
      for (int const threads : {1, 3}) {
        parallel::host::stream host({.threads = threads});
        auto const apart = sliced<T>(host, logits, labels, scale, ranks);
        compare(apart);
        auto const in_place = sliced<T>(host, logits, labels, scale, ranks, true);
        CHECK(same_bits(in_place.gradient, apart.gradient));
      }
    }
  }
}

TEST_CASE(
    "sliced_cross_entropy: NaN in any slice makes the loss NaN, and invalid labels are refused") {
  parallel::host::stream s;
  std::vector<float> logits(12, 1.0F);
  logits[1] = std::numeric_limits<float>::quiet_NaN();
  auto const got = sliced<float>(s, logits, {4, 4}, 1.0, 3);
  CHECK(std::isnan(got.losses[0]));
  CHECK(got.correct[0] == 0);
  CHECK(got.losses[1] == doctest::Approx(std::log(6.0)));
  std::vector<float> statistics(8);
  std::vector<std::int32_t> const labels{0, 6};
  ops::vocabulary_statistics(s, matrix(statistics, 2), matrix(logits, 2), vector(labels),
                             {.vocabulary = 6});
  CHECK_THROWS_WITH(s.synchronize(),
                    "ops::sliced_cross_entropy: label 6 of token 1 is outside of the vocabulary "
                    "of 6");
}

}  // namespace cross_entropy_test
