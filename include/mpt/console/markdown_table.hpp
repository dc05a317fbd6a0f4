// A Markdown table that is also readable as text.
#pragma once

#include <string>
#include <vector>

namespace mpt::console {

/// A Markdown table with columns as wide as their content; the first row is the head. Columns with
/// `right` set, those of numbers, are aligned to the right.
[[nodiscard]] std::string markdown_table(std::vector<std::vector<std::string>> const& rows,
                                         std::vector<bool> const& right);

}  // namespace mpt::console
