#include <mpt/console/table.hpp>

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <mpt/console/plain_text.hpp>

namespace mpt::console {

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

namespace {

[[nodiscard]] std::string repeat(std::string_view piece, std::size_t times) {
  std::string out;
  while (times-- > 0) out += piece;
  return out;
}

}  // namespace

table::table(std::string_view title) : title_(plain_line(title)) {}

void table::row(std::string_view name, std::string_view value) {
  rows_.emplace_back(plain_line(name), plain_line(value));
}

std::string table::text() const {
  std::size_t left = 0;
  std::size_t right = width_of(title_);
  for (auto const& [name, value] : rows_) {
    left = std::max(left, width_of(name));
    right = std::max(right, width_of(value));
  }
  std::string const line(repeat("─", left + right + 4));
  std::string out = fmt::format("┌{}┐\n", line);
  out += fmt::format("│ {}{} │\n", title_, std::string(left + right + 2 - width_of(title_), ' '));
  out += fmt::format("├{}┤\n", line);
  for (auto const& [name, value] : rows_) {
    if (name.empty() && value.empty())
      out += fmt::format("├{}┤\n", line);
    else
      out += fmt::format("│ {}{}  {}{} │\n", name, std::string(left - width_of(name), ' '), value,
                         std::string(right - width_of(value), ' '));
  }
  return out + fmt::format("└{}┘\n", line);
}

std::string markdown_table(std::vector<std::vector<std::string>> const& rows,
                           std::vector<bool> const& right) {
  auto cells = rows;
  for (auto& row : cells)
    for (auto& cell : row) cell = plain_line(cell);
  std::vector<std::size_t> widths(right.size(), 3);
  for (auto const& row : cells)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string out;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    for (std::size_t i = 0; i < cells[r].size(); ++i) {
      std::string const space(widths[i] - width_of(cells[r][i]), ' ');
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
