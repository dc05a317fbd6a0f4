// dropout: y = x / (1 - p) with probability 1 - p, else 0 (Srivastava et al., 2014).
//
// The mask is a function of Philox key and global element index: nothing is saved, the backward
// pass is the same call on dy, and every layout drops the same elements. An element is kept iff its
// uniform number is >= p. T is float, bf16 or double. Cost: one Philox block for four elements.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/philox.hpp>
#include <parallel/ops/detail/check.hpp>

namespace parallel::ops {

struct dropout_options {
  float probability = 0.0F;         // p, of zeroing, in [0, 1]
  philox random = philox(0, 0);     // of this seed, operation and step
  std::uint64_t first_element = 0;  // global index of x[0]
};

struct dropout_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x,
                  dropout_options options) const {
    detail::same("dropout", "the size of y", y.size(), "that of x", x.size());
    require(options.probability >= 0.0F && options.probability <= 1.0F,
            "ops::dropout: the probability is ", options.probability, ", but must be in [0, 1]");
    dropout_impl(s, y, x, options);
  }
};
/// dropout(s, y, x, {.probability, .random, .first_element}): y[i] = x[i] / (1 - p) where
/// random.uniform(first_element + i) >= p, else 0; y may be x. Probability 0 copies.
inline constexpr dropout_fn dropout{};

}  // namespace parallel::ops
