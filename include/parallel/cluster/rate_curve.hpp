// rate_curve: a rate that depends on a size, by points that were measured or published.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace parallel::cluster {

/// A positive rate by size. Between two points its logarithm is linear in the logarithm of the
/// size; outside of them it is that of the nearest point.
class rate_curve {
 public:
  rate_curve() = default;
  /// The same rate for every size.
  explicit rate_curve(double rate) : rate_curve({{1.0, rate}}) {}
  /// Points (size, rate), in any order. Throws `error` unless all are positive and no size comes
  /// twice.
  explicit rate_curve(std::vector<std::pair<double, double>> points) : points_(std::move(points)) {
    std::ranges::sort(points_);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      auto const& [size, rate] = points_[i];
      require(size > 0 && rate > 0, "a rate of ", rate, " for the size ", size,
              ": sizes and rates must be above 0");
      require(i == 0 || points_[i - 1].first < size, "two rates for the size ", size);
    }
  }

  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] std::vector<std::pair<double, double>> const& points() const { return points_; }

  /// Adds a point; replaces the one of the same size.
  void set(double size, double rate) {
    auto points = points_;
    std::erase_if(points, [&](auto const& p) { return p.first == size; });
    points.emplace_back(size, rate);
    *this = rate_curve(std::move(points));
  }

  /// The rate for a size. Throws `error` if there are no points.
  [[nodiscard]] double rate(double size) const {
    require(!empty(), "a rate curve without points has no rate");
    auto const upper = std::ranges::lower_bound(points_, size, {}, &point::first);
    if (upper == points_.begin()) return upper->second;
    if (upper == points_.end()) return points_.back().second;
    auto const lower = std::prev(upper);
    double const share = std::log(size / lower->first) / std::log(upper->first / lower->first);
    return lower->second * std::pow(upper->second / lower->second, share);
  }

 private:
  using point = std::pair<double, double>;
  std::vector<point> points_;
};

}  // namespace parallel::cluster
