// cross_entropy in plain loops. Sums are taken in double.
#pragma once

#include <cmath>

#include <parallel/ops/cross_entropy.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T, class Loss, class Logit>
void cross_entropy_impl(stream&, matrix_view<T> dlogits, vector_view<Loss> losses,
                        vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                        vector_view<std::int32_t const> labels,
                        ops::cross_entropy_options options) {
  index const vocabulary = logits.extent(1);
  for (index m = 0; m < logits.extent(0); ++m) {
    index const label = labels(m);
    if (label == options.ignore) {
      losses(m) = Loss(0);
      correct(m) = 0;
      if (!dlogits.empty())
        for (index n = 0; n < vocabulary; ++n) dlogits(m, n) = static_cast<T>(accumulate_t<T>(0));
      continue;
    }
    ops::detail::check_label(label, vocabulary, m);
    auto const z = [&](index n) { return double(options.scale) * double(logits(m, n)); };
    index best = 0;
    for (index n = 1; n < vocabulary; ++n)
      if (z(n) > z(best)) best = n;
    double const top = z(best);
    double sum = 0.0;
    for (index n = 0; n < vocabulary; ++n) sum += std::exp(z(n) - top);
    double const loss = std::log(sum) + top - z(label);
    losses(m) = static_cast<Loss>(loss);
    correct(m) = best == label && !std::isnan(loss) ? 1 : 0;
    if (dlogits.empty()) continue;
    for (index n = 0; n < vocabulary; ++n) {
      double const share = std::exp(z(n) - top) / sum - (n == label ? 1.0 : 0.0);
      dlogits(m, n) = static_cast<T>(static_cast<accumulate_t<T>>(double(options.scale) * share));
    }
  }
}

}  // namespace parallel::reference
