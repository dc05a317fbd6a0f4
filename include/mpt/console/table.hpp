// Tables for people: of names and values for a final report, and in Markdown, readable as text too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpt::console {

/// The width of a string in code points, of which wide characters take more columns.
[[nodiscard]] std::size_t width_of(std::string_view text);

class table {
 public:
  explicit table(std::string_view title);

  void row(std::string_view name, std::string_view value);
  /// A thin line before the next row.
  void separator() { rows_.emplace_back(); }

  [[nodiscard]] std::string text() const;

 private:
  std::string title_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

/// A Markdown table with columns as wide as their content; the first row is the head. Columns with
/// `right` set, those of numbers, are aligned to the right.
[[nodiscard]] std::string markdown_table(std::vector<std::vector<std::string>> const& rows,
                                         std::vector<bool> const& right);

}  // namespace mpt::console
