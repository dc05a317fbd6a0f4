// The page of a run or of several: one HTML file that needs no network.
#pragma once

#include <string>
#include <vector>

#include <mpt/report/run_record.hpp>

namespace mpt::report {

/// Whether this program was built with the library that draws charts.
[[nodiscard]] bool has_charts();

/// The page of `runs` (at least one, with different names). An empty `title` is made from names.
[[nodiscard]] std::string page_of(std::vector<run_record> const& runs, std::string const& title);

}  // namespace mpt::report
