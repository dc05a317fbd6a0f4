// charts: which of a run's numbers are shown together, and how.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mpt/report/curve.hpp>
#include <mpt/report/run_record.hpp>

namespace mpt::report {

/// One line of a chart.
struct chart_series {
  std::size_t run = 0;   ///< index
  std::string label;     ///< within the run, as "training"
  std::size_t kind = 0;  ///< the same number for the same label in all runs
  curve points;
};

/// The unit of a chart's values.
enum class value_unit { plain, share, count, seconds, bytes };

/// Series of numbers that are shown together.
struct chart {
  std::string id;
  std::string title;
  std::string explanation;
  value_unit unit = value_unit::plain;
  bool is_noisy = false;  ///< shown smoothed
  std::vector<chart_series> series = {};
};

/// The charts of one run, or of several that are compared.
[[nodiscard]] std::vector<chart> charts_of(std::vector<run_record> const& runs);

/// A value as text, with its unit.
[[nodiscard]] std::string to_string(double value, value_unit unit);

}  // namespace mpt::report
