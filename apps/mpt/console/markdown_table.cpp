#include <mpt/console/markdown_table.hpp>

#include <algorithm>
#include <cstddef>

namespace mpt::console {

std::string markdown_table(std::vector<std::vector<std::string>> const& rows,
                           std::vector<bool> const& right) {
  auto const width = [](std::string const& text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  };
  std::vector<std::size_t> widths(right.size(), 3);
  for (auto const& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      std::string const space(widths[i] - width(rows[r][i]), ' ');
      out += "| " + (right[i] ? space + rows[r][i] : rows[r][i] + space) + " ";
    }
    out += "|\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i)
      out += "|" + std::string(right[i] ? "" : ":") + std::string(widths[i] + 1, '-') +
             (right[i] ? ":" : "");
    out += "|\n";
  }
  return out;
}

}  // namespace mpt::console
