// A Markdown table that is also readable as text.
#pragma once

#include <string>
#include <vector>

namespace mpt::console {

/// A Markdown table with columns as wide as they need; the first row is its head. Numbers' columns
/// (`right`) end at the right.
[[nodiscard]] std::string markdown_table(std::vector<std::vector<std::string>> const& rows,
                                         std::vector<bool> const& right);

}  // namespace mpt::console
