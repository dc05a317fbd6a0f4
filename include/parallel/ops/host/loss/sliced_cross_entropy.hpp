// Cross entropy over a sliced vocabulary on the host; the passes are those of cross_entropy.
#pragma once

#include <limits>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/loss/cross_entropy.hpp>
#include <parallel/ops/loss/sliced_cross_entropy.hpp>

namespace parallel::host {

template <class A, class Logit>
void run_operation(stream& s, ops::vocabulary_statistics_arguments<A, Logit> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (std::is_same_v<A, float>) {
      index const columns = a.logits.extent(1);
      for (index m = 0; m < a.labels.extent(0); ++m)
        ops::detail::check_sliced_label(a.labels(m), a.options, m);
      for_rows(
          threads, a.logits.extent(0), columns,
          [ =, scale = static_cast<float>(a.options.scale) ](
              auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            Logit const* const from = a.logits.data() + m * columns;
            auto const [top, sum] = detail::sum_exponentials<L>(from, broadcast<L>(scale), columns);
            index first = 0;
            while (first + 1 < columns && from[first] * scale != top) ++first;
            index const label = a.labels.data()[m] - a.options.first;
            bool const in_slice = 0 <= label && label < columns;
            float* const to = a.statistics.data() + m * ops::vocabulary_statistics_count;
            to[0] = top;
            to[1] = static_cast<float>(sum);
            to[2] = in_slice ? from[label] * scale : -std::numeric_limits<float>::infinity();
            to[3] = static_cast<float>(a.options.first + first);
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T, class Loss, class Logit>
void run_operation(stream& s, ops::sliced_cross_entropy_arguments<T, Loss, Logit> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const rows = a.logits.extent(0);
      index const columns = a.logits.extent(1);
      T* const gradients = a.dlogits.empty() ? nullptr : a.dlogits.data();
      for_rows(
          threads, rows, columns,
          [ =, scale = static_cast<float>(a.options.scale) ](auto lanes, index m)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                index const label = a.labels.data()[m];
                bool const ignored = label == a.options.ignore;
                constexpr index numbers = ops::vocabulary_statistics_count;
                ops::detail::joined_statistics const joined(a.statistics.data() + m * numbers,
                                                            a.statistics.extent(0), rows * numbers);
                double const loss = joined.loss();
                a.losses.data()[m] = ignored ? Loss(0) : static_cast<Loss>(loss);
                a.correct.data()[m] = !ignored && joined.column == label && loss == loss;
                if (gradients == nullptr) return;
                Logit const* const from = a.logits.data() + m * columns;
                T* const to = gradients + m * columns;
                auto const factor =
                    broadcast<L>(ignored ? 0.0F : static_cast<float>(double(scale) / joined.sum));
                auto const shift = broadcast<L>(static_cast<float>(joined.top));
                auto const scales = broadcast<L>(scale);
                // the gradient of the label in double, because 1 - probability may cancel
                index const column = label - a.options.first;
                bool const in_slice = !ignored && 0 <= column && column < columns;
                double const at_label =
                    double(scale) * (std::exp(joined.label - joined.top) / joined.sum - 1.0);
                for (index i = 0; i < columns; i += L) {
                  auto const power =
                      simd::exp(simd::load_partial<L>(from + i, columns - i) * scales - shift);
                  simd::store_partial(to + i, ignored ? broadcast<L>(0.0F) : power * factor,
                                      columns - i);
                }
                if (in_slice) to[column] = static_cast<T>(static_cast<float>(at_label));
              });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
