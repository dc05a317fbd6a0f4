// rope in plain loops.
#pragma once

#include <cmath>

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/rope.hpp>

namespace parallel::reference {

/// `direction` is 1, or -1 to turn back.
template <class T>
void rope_impl(stream&, ops::heads_view<T> x, ops::rope_options options, double direction) {
  using A = accumulate_t<T>;
  index const half = x.head_dim / 2;
  for (index b = 0; b < x.batch; ++b)
    for (index s = 0; s < x.sequence; ++s)
      for (index i = 0; i < half; ++i) {
        double const angle = direction * static_cast<double>(options.first + s) *
                             options.frequencies[static_cast<std::size_t>(i)];
        double const growth = ops::rope_growth(options, options.first + s, i);
        A const cosine = static_cast<A>(growth * std::cos(angle));
        A const sine = static_cast<A>(growth * std::sin(angle));
        for (index h = 0; h < x.heads; ++h) {
          T* const row = x.row(b, s, h);
          A const low = static_cast<A>(row[i]);
          A const high = static_cast<A>(row[i + half]);
          row[i] = static_cast<T>(low * cosine - high * sine);
          row[i + half] = static_cast<T>(high * cosine + low * sine);
        }
      }
}

}  // namespace parallel::reference
