// A two-column table: what, and how much. Nothing more than a final report needs.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace mpt::console {

class table {
 public:
  explicit table(std::string title) : title_(std::move(title)) {}

  void row(std::string name, std::string value) {
    rows_.emplace_back(std::move(name), std::move(value));
  }
  /// A thin line before the next row.
  void rule() { rows_.emplace_back(); }

  [[nodiscard]] std::string text() const {
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

 private:
  /// Columns a string takes: code points, which is right for what tables here hold.
  [[nodiscard]] static std::size_t width(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  }
  [[nodiscard]] static std::string repeat(std::string_view piece, std::size_t times) {
    std::string out;
    while (times-- > 0) out += piece;
    return out;
  }

  std::string title_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

}  // namespace mpt::console
