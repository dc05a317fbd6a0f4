// product_rates: the rate of matrix products of a processor by their shape.
//
// A processor of `units` equal cores computes C in tiles. Tiles that do not fill the last round of
// cores, borders that do not fill a tile, and the start of every tile's sum cost time; this model
// says how much for any shape. A side that is no multiple of 64 elements lowers the rate, because
// its rows do not begin at whole memory transactions (NVIDIA, "Matrix Multiplication Background
// User's Guide", section 3.1). Measured shapes correct it: the logarithm of measured over modelled
// time is averaged over the points, each with the weight of its inverse squared distance in
// logarithms of m, n and k. At a measured shape the rate is the measured one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace parallel::cluster {

/// A product C [m, n] = A [m, k] B [k, n].
struct product_shape {
  double m = 0;
  double n = 0;
  double k = 0;

  [[nodiscard]] double flops() const { return 2 * m * n * k; }
  friend auto operator<=>(product_shape const&, product_shape const&) = default;
};

/// A shape with the floating-point operations a second that were measured.
struct measured_product {
  product_shape shape;
  double rate = 0;
};

class product_rates {
 public:
  product_rates() = default;
  /// `rate`: operations a second of a large square product; `units`: cores that compute a tile each
  /// at a time, 1 for a processor on which every shape has that rate.
  explicit product_rates(double rate, double units = 1, std::vector<measured_product> points = {})
      : rate_(rate), units_(units), points_(std::move(points)) {
    require(rate > 0 && units >= 1, "products of ", rate, " operations a second on ", units,
            " cores: both must be above 0");
    for (auto const& p : points_)
      require(p.rate > 0 && p.shape.flops() > 0, "a measured product of ", p.shape.m, " x ",
              p.shape.n, " x ", p.shape.k, " at ", p.rate, ": all must be above 0");
  }

  [[nodiscard]] bool empty() const { return rate_ == 0; }
  [[nodiscard]] double large_rate() const { return rate_; }
  [[nodiscard]] double units() const { return units_; }
  [[nodiscard]] std::vector<measured_product> const& points() const { return points_; }

  /// Operations a second of a product.
  [[nodiscard]] double rate(product_shape const& shape) const {
    require(!empty(), "the rate of products is not known");
    double weight_sum = 0, correction = 0;
    for (auto const& p : points_) {
      double const weight = 1 / (squared_distance(p.shape, shape) + 1e-9);
      weight_sum += weight;
      correction += weight * std::log(p.rate / modelled(p.shape));
    }
    if (weight_sum > 0) correction /= weight_sum;
    return modelled(shape) * std::exp(correction);
  }

 private:
  /// Rows and columns of a tile, and the share of the rate that a core reaches on it.
  struct tile {
    double rows, columns, efficiency;
  };
  /// Steps of a tile's sum that its start costs.
  static constexpr double start = 64;
  /// Elements of a row that are whole memory transactions, and the share of the rate without them,
  /// fitted on published steps with products of 1 800 columns on A100.
  static constexpr double aligned_elements = 64;
  static constexpr double unaligned_share = 0.75;

  [[nodiscard]] double modelled(product_shape const& s) const {
    if (units_ == 1) return rate_;
    constexpr std::array<tile, 4> tiles{
        {{128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.92}, {64, 128, 0.8}}};
    double best = 0;
    for (auto const& t : tiles)
      for (double parts = 1; parts <= 16 && s.k / parts >= 4 * start; parts *= 2)
        best = std::max(best, rate_on(s, t, parts));
    if (best == 0) best = rate_on(s, tiles.back(), 1);
    return best * (is_aligned(s.n) && is_aligned(s.k) ? 1 : unaligned_share);
  }
  [[nodiscard]] static bool is_aligned(double side) {
    return std::fmod(side, aligned_elements) == 0;
  }

  /// The rate with tiles of one kind, whose sums are divided into parts that other cores compute.
  [[nodiscard]] double rate_on(product_shape const& s, tile const& t, double parts) const {
    double const count = std::ceil(s.m / t.rows) * std::ceil(s.n / t.columns) * parts;
    double const rounds = std::ceil(count / units_);
    double const steps = s.k / parts + start + (parts > 1 ? start : 0);
    double const seconds =
        rounds * 2 * t.rows * t.columns * steps * units_ / (rate_ * t.efficiency);
    return s.flops() / seconds;
  }

  [[nodiscard]] static double squared_distance(product_shape const& a, product_shape const& b) {
    auto const square = [](double x) { return x * x; };
    return square(std::log2(a.m / b.m)) + square(std::log2(a.n / b.n)) +
           square(std::log2(a.k / b.k));
  }

  double rate_ = 0;
  double units_ = 1;
  std::vector<measured_product> points_;
};

}  // namespace parallel::cluster
