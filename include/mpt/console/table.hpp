// table: a two-column table of names and values for a final report.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpt::console {

class table {
 public:
  explicit table(std::string_view title);

  void row(std::string_view name, std::string_view value);
  /// A thin line before the next row.
  void separator() { rows_.emplace_back(); }

  [[nodiscard]] std::string text() const;

 private:
  /// The width of a string in code points; the tables hold no wide characters.
  [[nodiscard]] static std::size_t width(std::string_view text);
  [[nodiscard]] static std::string repeat(std::string_view piece, std::size_t times);

  std::string title_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

}  // namespace mpt::console
