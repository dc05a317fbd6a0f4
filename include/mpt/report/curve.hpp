// curve: the values of one logged number by batch, and how many of them a page shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpt::report {

struct curve {
  std::vector<std::int64_t> batches;  ///< ascending
  std::vector<double> values;         ///< NaN: the value was not finite

  [[nodiscard]] bool empty() const { return batches.empty(); }
  [[nodiscard]] std::size_t size() const { return batches.size(); }
  void add(std::int64_t batch, double value);
  /// Removes the values of `batch` and of all later ones.
  void remove_from(std::int64_t batch);
  friend bool operator==(curve const&, curve const&) = default;
};

/// At most about `limit` points of `points`: the first and the last, and of each of equally long
/// parts the smallest, the largest and the first value that is not finite. So no peak is lost. All
/// points where they are no more than `limit`.
[[nodiscard]] curve decimate(curve const& points, std::size_t limit);

/// The values of a curve over a range of batches.
struct value_range {
  std::size_t count = 0;  ///< finite values
  double mean = 0;
  double smallest = 0;
  double largest = 0;
  bool has_non_finite = false;
};

/// The values of batches `first` to `last`.
[[nodiscard]] value_range summarize(curve const& points, std::int64_t first, std::int64_t last);

}  // namespace mpt::report
