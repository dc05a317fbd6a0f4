#include <mpt/console/table.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <mpt/console/plain_text.hpp>

namespace mpt::console {

table::table(std::string_view title) : title_(plain_line(title)) {}

void table::row(std::string_view name, std::string_view value) {
  rows_.emplace_back(plain_line(name), plain_line(value));
}

std::string table::text() const {
  std::size_t left = 0;
  std::size_t right = width(title_);
  for (auto const& [name, value] : rows_) {
    left = std::max(left, width(name));
    right = std::max(right, width(value));
  }
  std::string const line(repeat("─", left + right + 4));
  std::string out = fmt::format("┌{}┐\n", line);
  out += fmt::format("│ {}{} │\n", title_, std::string(left + right + 2 - width(title_), ' '));
  out += fmt::format("├{}┤\n", line);
  for (auto const& [name, value] : rows_) {
    if (name.empty() && value.empty())
      out += fmt::format("├{}┤\n", line);
    else
      out += fmt::format("│ {}{}  {}{} │\n", name, std::string(left - width(name), ' '), value,
                         std::string(right - width(value), ' '));
  }
  return out + fmt::format("└{}┘\n", line);
}

std::size_t table::width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string table::repeat(std::string_view piece, std::size_t times) {
  std::string out;
  while (times-- > 0) out += piece;
  return out;
}

}  // namespace mpt::console
