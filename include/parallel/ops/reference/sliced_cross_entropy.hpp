// Cross entropy over a divided vocabulary in plain loops. Sums are taken in double.
#pragma once

#include <cmath>
#include <limits>

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/sliced_cross_entropy.hpp>

namespace parallel::reference {

template <class A, class Logit>
void vocabulary_statistics_impl(stream&, matrix_view<A> statistics, matrix_view<Logit const> logits,
                                vector_view<std::int32_t const> labels,
                                ops::sliced_cross_entropy_options options) {
  index const columns = logits.extent(1);
  for (index m = 0; m < logits.extent(0); ++m) {
    ops::detail::check_sliced_label(labels(m), options, m);
    auto const z = [&](index n) { return double(options.scale) * double(logits(m, n)); };
    index best = 0;
    for (index n = 1; n < columns; ++n)
      if (z(n) > z(best)) best = n;
    double sum = 0;
    for (index n = 0; n < columns; ++n) sum += std::exp(z(n) - z(best));
    index const label = labels(m) - options.first;
    bool const here = 0 <= label && label < columns;
    statistics(m, 0) = static_cast<A>(z(best));
    statistics(m, 1) = static_cast<A>(sum);
    statistics(m, 2) = here ? static_cast<A>(z(label)) : -std::numeric_limits<A>::infinity();
    statistics(m, 3) = static_cast<A>(options.first + best);
  }
}

template <class T, class Loss, class Logit>
void sliced_cross_entropy_impl(stream&, matrix_view<T> dlogits, vector_view<Loss> losses,
                               vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                               vector_view<std::int32_t const> labels,
                               tensor_view<accumulate_t<T> const, 3> statistics,
                               ops::sliced_cross_entropy_options options) {
  index const rows = logits.extent(0);
  for (index m = 0; m < rows; ++m) {
    bool const ignored = labels(m) == options.ignore;
    ops::detail::joined_statistics const all(&statistics(0, m, 0), statistics.extent(0), rows * 4);
    losses(m) = ignored ? Loss(0) : static_cast<Loss>(all.loss());
    correct(m) = !ignored && all.column == labels(m) && !std::isnan(all.loss()) ? 1 : 0;
    if (dlogits.empty()) continue;
    for (index n = 0; n < logits.extent(1); ++n) {
      double const z = double(options.scale) * double(logits(m, n));
      double const share =
          std::exp(z - all.top) / all.sum - (options.first + n == labels(m) ? 1.0 : 0.0);
      dlogits(m, n) =
          static_cast<T>(static_cast<accumulate_t<T>>(ignored ? 0.0 : options.scale * share));
    }
  }
}

}  // namespace parallel::reference
