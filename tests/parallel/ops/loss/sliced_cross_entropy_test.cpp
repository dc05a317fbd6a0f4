// Cross entropy over a sliced vocabulary against that over the whole one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <parallel/ops/host/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace sliced_cross_entropy_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;
using parallel::matrix_view;

template <class T>
struct result {
  std::vector<T> gradient;
  std::vector<accumulate_t<T>> losses;
  std::vector<std::uint8_t> correct;
};

/// Types of the gradient and of the logits.
template <class T, class L = T>
struct types {
  using gradient = T;
  using logit = L;
};

template <class T, class L, class Stream>
result<T> whole(Stream& s, std::vector<L> const& logits, std::vector<std::int32_t> const& labels,
                double scale) {
  auto const rows = std::ssize(labels);
  result<T> out{std::vector<T>(logits.size()), std::vector<accumulate_t<T>>(labels.size()),
                std::vector<std::uint8_t>(labels.size(), 9)};
  ops::cross_entropy(s, matrix(out.gradient, rows), vector(out.losses), vector(out.correct),
                     matrix(logits, rows), vector(labels), {.scale = scale});
  s.synchronize();
  return out;
}

/// The same with `ranks` slices of equal width; all ranks must compute the same loss. If types
/// allow it and `in_place` is set, the gradient overwrites the logits.
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
    auto const expected = whole<T>(reference, logits, labels, scale);
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

}  // namespace sliced_cross_entropy_test
