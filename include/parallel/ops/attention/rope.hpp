// rope: rotary position embedding (Su et al., "RoFormer", 2021), in the arrangement of GPT-NeoX and
// Llama: elements i and i + P of a head are a point of the plane, which is rotated by the angle
// position · frequency[i]. P, the number of frequencies, is half of the head, or less: then the
// elements from 2P on stay as they are (GPT-NeoX's rotary_pct).
//
// With growths the points are also scaled, by e^(growth[i] · (position - origin)), as in xPos,
// where queries grow and keys shrink (Sun et al., "A Length-Extrapolatable Transformer", 2022,
// section 3).
//
// The gradient of a rotation is the inverse rotation; the gradient of a scaling is the same
// scaling. Angles, sines and cosines are computed in double, so that position 100,000 is as exact
// as position 1; they are rounded to accumulate_t<T>. T is float, bf16 or double. Cost: P sines and
// cosines a row, shared by all its heads, and one pass over memory.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct rope_options {
  std::span<double const> frequencies = {};  ///< of the pairs, radians a position. Not copied: it
                                             ///< must live until the operation has run
  index first = 0;                           ///< position of the first row of every sequence
  std::span<double const> growths = {};      ///< of the pairs, likewise; empty: no scaling
  index origin = 0;                          ///< the position whose scale is 1
  double growth_sign = 1.0;                  ///< -1: the inverse scaling
  double scale = 1.0;                        ///< of the points at every position (LongRoPE)

  /// The number of pairs of a head that are rotated.
  [[nodiscard]] index pairs() const { return static_cast<index>(frequencies.size()); }
};

/// theta^(-2i / head_dim) for the head_dim / 2 pairs of a head.
[[nodiscard]] inline std::vector<double> rope_frequencies(double theta, index head_dim) {
  std::vector<double> out;
  for (index i = 0; i < head_dim / 2; ++i)
    out.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  return out;
}

/// The factor by which pair i is scaled at a position.
[[nodiscard]] inline double rope_growth(rope_options const& options, index position, index i) {
  if (options.growths.empty()) return options.scale;
  return options.scale *
         std::exp(options.growth_sign * options.growths[static_cast<std::size_t>(i)] *
                  static_cast<double>(position - options.origin));
}

namespace detail {
template <class T>
void check_rope(std::string_view operation, heads_view<T> const& x, rope_options const& options) {
  require(options.pairs() >= 1 && 2 * options.pairs() <= x.head_dim, "ops::", operation, ": ",
          options.pairs(), " frequencies turn that many pairs of elements, but head_dim is ",
          x.head_dim);
  if (!options.growths.empty())
    require_equal(operation, "the number of growths", static_cast<index>(options.growths.size()),
                  "the number of frequencies", options.pairs());
}
}  // namespace detail

template <class T>
struct rope_arguments {
  static constexpr char const* name = "rope";
  heads_view<T> x;
  rope_options options;
  double direction;

  [[nodiscard]] auto operands() const { return std::tuple(updates(x)); }
  [[nodiscard]] std::uint64_t flops() const { return 3 * static_cast<std::uint64_t>(x.size()); }
  [[nodiscard]] index parts() const { return x.batch * x.sequence; }
  void compute(index token) const {
    using A = accumulate_t<T>;
    index const half = options.pairs();
    index const b = token / x.sequence, s = token % x.sequence;
    for (index i = 0; i < half; ++i) {
      double const angle = direction * static_cast<double>(options.first + s) *
                           options.frequencies[static_cast<std::size_t>(i)];
      double const growth = rope_growth(options, options.first + s, i);
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
};

struct rope_fn {
  template <class Stream, class T>
  void operator()(Stream& s, heads_view<T> x, rope_options options) const {
    detail::check_rope("rope", x, options);
    run_operation(s, rope_arguments<T>{x, options, 1.0});
  }
};
/// rope(s, x, {.frequencies, .first}): x [B, S, H, D] is rotated in place.
inline constexpr rope_fn rope{};

struct rope_backward_fn {
  template <class Stream, class T>
  void operator()(Stream& s, heads_view<T> dx, rope_options options) const {
    detail::check_rope("rope_backward", dx, options);
    run_operation(s, rope_arguments<T>{dx, options, -1.0});
  }
};
/// rope_backward(s, dx, options): changes the gradient by the result to the gradient by the input,
/// in place.
inline constexpr rope_backward_fn rope_backward{};

}  // namespace parallel::ops
