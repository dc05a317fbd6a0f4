// by_source: the results of the rows of a table by their source, one program on one kind of GPU.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mpt::detail {

/// `result_of(rows)` for the rows of every source, those with most rows first. A row has the
/// members `source` and `gpu`, a result `rows`, their number.
template <class Row, class ResultOf>
[[nodiscard]] auto by_source(std::vector<Row> const& rows, ResultOf const& result_of) {
  std::map<std::pair<std::string, std::string>, std::vector<Row>> groups;
  for (auto const& row : rows) groups[{row.source, row.gpu}].push_back(row);
  std::vector<decltype(result_of(rows))> out;
  for (auto& [name, members] : groups) out.push_back(result_of(std::move(members)));
  std::ranges::stable_sort(out, std::ranges::greater(),
                           [](auto const& result) { return result.rows; });
  return out;
}

}  // namespace mpt::detail
