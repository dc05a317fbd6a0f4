#include <mpt/console/markdown_table.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/console/plain_text.hpp>

namespace mpt::console {

std::string markdown_table(std::vector<std::vector<std::string>> const& rows,
                           std::vector<bool> const& right) {
  auto cells = rows;
  for (auto& row : cells)
    for (auto& cell : row) cell = plain_line(cell);
  auto const width = [](std::string const& text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  };
  std::vector<std::size_t> widths(right.size(), 3);
  for (auto const& row : cells)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::string out;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    for (std::size_t i = 0; i < cells[r].size(); ++i) {
      std::string const space(widths[i] - width(cells[r][i]), ' ');
      out += "| " + (right[i] ? space + cells[r][i] : cells[r][i] + space) + " ";
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
