#include <mpt/yaml/to_yaml.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

namespace mpt {
namespace {

/// Text in double quotes; bytes from 128 on, of UTF-8, stay.
[[nodiscard]] std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) {
    auto const code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    if (code < 0x20 || code == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(code));
    else
      out += c;
  }
  return out + '"';
}

/// Whether text without quotes is read as the same scalar on a line of its own.
[[nodiscard]] bool is_plain(std::string_view text) {
  constexpr std::string_view indicators = "?:,[]{}#&*!|>'\"%@`-~ ";
  if (text.empty() || text == "null" || text == "Null" || text == "NULL" || text.back() == ' ')
    return false;
  bool const is_negative = text.size() > 1 && text[0] == '-' && text[1] != ' ' && text[1] != '-';
  if (!is_negative && indicators.find(text.front()) != std::string_view::npos) return false;
  return text.find_first_of("\n\t\r#") == std::string_view::npos &&
         text.find(": ") == std::string_view::npos && text.back() != ':';
}

[[nodiscard]] std::string scalar_text(config_node const& node) {
  if (node.is_null()) return "null";
  return node.is_string || !is_plain(node.text) ? double_quoted(node.text) : node.text;
}

[[nodiscard]] std::string key_text(std::string const& name) {
  return is_plain(name) ? name : double_quoted(name);
}

/// Whether an item of a list may stand in one line with the others.
[[nodiscard]] bool is_short(config_node const& item) {
  if (item.is_null()) return true;
  return item.is_scalar() &&
         (item.is_string || item.text.find_first_of(",[]{}") == std::string::npos);
}

[[nodiscard]] bool is_in_one_line(config_node const& node) {
  return node.items.empty() || (node.is_list() && std::ranges::all_of(node.items, is_short));
}

[[nodiscard]] std::string one_line(config_node const& node) {
  if (node.is_map()) return "{}";
  if (!node.is_list()) return scalar_text(node);
  std::string out;
  for (auto const& item : node.items) out += (out.empty() ? "" : ", ") + scalar_text(item);
  return "[" + out + "]";
}

/// Adds the members of a mapping or the items of a list, each behind `indent`.
void add_items(std::string& out, config_node const& node, std::string const& indent) {
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    auto const& item = node.items[i];
    out += indent + (node.is_map() ? key_text(node.keys[i].name) + ':' : std::string("-"));
    if (is_in_one_line(item)) {
      out += ' ' + one_line(item) + '\n';
      continue;
    }
    out += '\n';
    add_items(out, item, indent + "  ");
  }
}

}  // namespace

std::string to_yaml(config_node const& document) {
  std::string out;
  add_items(out, document, "");
  return out;
}

}  // namespace mpt
