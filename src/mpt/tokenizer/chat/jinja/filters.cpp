// Filters on strings and numbers, and the table of all filters.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/chat/jinja/list_filters.hpp>
#include <mpt/tokenizer/python_string.hpp>

namespace mpt::jinja {
namespace filters {
namespace {

/// A filter that is a method of the string that its operand prints.
template <char const* Name>
[[nodiscard]] value method_of_text(environment& state, arguments& args) {
  if (args.positional.empty()) throw render_error("a filter needs a value");
  state.work.spend(weight(args.positional.front()));
  args.positional.front() = make_text(to_string(args.positional.front()));
  return find_method(args.positional.front(), Name)(state, args);
}
constexpr char upper[] = "upper";
constexpr char lower[] = "lower";
constexpr char capitalize[] = "capitalize";
constexpr char strip[] = "strip";

[[nodiscard]] value replace(environment& state, arguments& args) {
  auto const bound = bind(args, "replace", {"s", "old", "new", "count"}, 3);
  arguments texts;
  for (int i = 0; i < 3; ++i) {
    state.work.spend(weight(*bound[static_cast<std::size_t>(i)]));
    texts.positional.push_back(make_text(to_string(*bound[static_cast<std::size_t>(i)])));
  }
  if (is_given(bound[3])) texts.positional.push_back(*bound[3]);
  return find_method(texts.positional.front(), "replace")(state, texts);
}

/// jinja2's title, which differs from str.title().
[[nodiscard]] value title(environment& state, arguments& args) {
  auto const text = to_string(*bind(args, "title", {"s"}, 1)[0]);
  state.work.spend(4 * text.size());
  auto const characters = python::decode(text);
  std::u32string_view rest = characters;
  std::u32string out;
  auto const is_separator = [](char32_t c) {
    return c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<' || python::is_space(c);
  };
  while (!rest.empty()) {
    auto const size =
        static_cast<std::size_t>(std::ranges::find_if(rest, is_separator) - rest.begin());
    if (size == 0) {
      out += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    out += python::upper(rest.substr(0, 1)) + python::lower(rest.substr(1, size - 1));
    rest.remove_prefix(size);
  }
  return new_text(state, python::encode(out));
}

[[nodiscard]] value indent(environment& state, arguments& args) {
  auto const bound = bind(args, "indent", {"s", "width", "first", "blank"}, 1);
  auto const self = require_text(*bound[0]);
  std::string indentation(4, ' ');
  if (bound[1] != nullptr && bound[1]->is_text()) {
    indentation = *bound[1]->string();
  } else if (bound[1] != nullptr) {
    auto const width = std::max<std::int64_t>(0, require_integer(*bound[1]));
    state.work.spend(static_cast<std::size_t>(width));
    indentation = std::string(static_cast<std::size_t>(width), ' ');
  }
  bool const indents_first = bound[2] != nullptr && is_true(*bound[2]);
  bool const indents_blank = bound[3] != nullptr && is_true(*bound[3]);
  arguments lines_of{.positional = {make_text(self + "\n")}};
  auto const lines =
      iterate(find_method(lines_of.positional.front(), "splitlines")(state, lines_of));
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto const& line = *lines[i].string();
    bool const is_indented = i == 0 ? indents_first : indents_blank || !line.empty();
    state.work.spend(indentation.size());
    out += (i == 0 ? "" : "\n") + (is_indented ? indentation : "") + line;
  }
  return new_text(state, std::move(out));
}

[[nodiscard]] value escape(environment& state, arguments& args) {
  auto const& operand = *bind(args, "escape", {"s"}, 1)[0];
  if (auto const* const found = std::get_if<text>(&operand); found != nullptr && found->is_markup)
    return operand;
  state.work.spend(weight(operand));
  std::string out;
  for (char const c : to_string(operand)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  state.work.spend(out.size());
  return make_text(std::move(out), /*is_markup=*/true);
}
[[nodiscard]] value mark_safe(environment& state, arguments& args) {
  auto const& operand = *bind(args, "safe", {"value"}, 1)[0];
  state.work.spend(weight(operand));
  return make_text(to_string(operand), /*is_markup=*/true);
}
[[nodiscard]] value string(environment& state, arguments& args) {
  auto const& operand = *bind(args, "string", {"object"}, 1)[0];
  if (operand.is_text()) return operand;
  state.work.spend(weight(operand));
  return make_text(to_string(operand));
}
[[nodiscard]] value format(environment& state, arguments& args) {
  auto const text = to_string(args.positional.at(0));
  args.positional.erase(args.positional.begin());
  if (!args.positional.empty() && !args.named.empty())
    throw render_error("can't handle positional and keyword arguments at the same time");
  if (args.named.empty())
    return new_text(
        state, format_percent(state, text, make_sequence(sequence_kind::tuple, args.positional)));
  std::vector<std::pair<value, value>> entries;
  for (auto const& [name, item] : args.named) entries.emplace_back(make_text(name), item);
  return new_text(state, format_percent(state, text, make_mapping(std::move(entries))));
}

// numbers

/// A number as Python's int() and float() read it, without white space, and _ between digits.
[[nodiscard]] std::string number_text(std::string const& text) {
  auto out = python::encode(python::strip(python::decode(text), true, true, {}));
  for (std::size_t i = 1; i + 1 < out.size(); ++i)
    if (out[i] == '_' && out[i - 1] != '_' && out[i + 1] != '_') out.erase(i, 1);
  return out.starts_with('+') && !out.starts_with("+-") ? out.substr(1) : out;
}
[[nodiscard]] std::optional<double> parse_float(value const& operand) {
  if (auto const number = operand.number()) return number;
  if (!operand.is_text()) return std::nullopt;
  auto const text = number_text(*operand.string());
  if (text.find('(') != std::string::npos) return std::nullopt;  // nan(...)
  double out = 0;
  auto const result = std::from_chars(text.data(), text.data() + text.size(), out);
  if (result.ptr != text.data() + text.size() || text.empty() ||
      (result.ec != std::errc() && result.ec != std::errc::result_out_of_range))
    return std::nullopt;
  return out;
}

[[nodiscard]] value to_float(environment& /*state*/, arguments& args) {
  auto const bound = bind(args, "float", {"value", "default"}, 1);
  require_defined(*bound[0]);
  if (auto const number = parse_float(*bound[0])) return *number;
  return bound[1] == nullptr ? value(0.0) : *bound[1];
}

[[nodiscard]] value to_integer(environment& /*state*/, arguments& args) {
  auto const bound = bind(args, "int", {"value", "default", "base"}, 1);
  require_defined(*bound[0]);
  if (auto const whole = bound[0]->integer()) return *whole;
  if (bound[0]->is_text()) {
    auto text = number_text(*bound[0]->string());
    auto const base = bound[2] == nullptr ? 10 : require_integer(*bound[2]);
    bool const is_negative = text.starts_with('-');
    auto digits = text.substr(is_negative ? 1 : 0);
    char const prefix =
        digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : ' ';
    if ((base == 16 && prefix == 'x') || (base == 8 && prefix == 'o') ||
        (base == 2 && prefix == 'b'))
      digits.erase(0, 2);
    if (base < 2 || base > 36) throw render_error("int() base must be >= 2 and <= 36");
    std::int64_t out = 0;
    auto const result =
        std::from_chars(digits.data(), digits.data() + digits.size(), out, static_cast<int>(base));
    bool const is_whole =
        !digits.empty() && digits.front() != '-' && result.ptr == digits.data() + digits.size();
    if (is_whole && result.ec == std::errc::result_out_of_range)
      throw render_error("an integer is too large");
    if (is_whole && result.ec == std::errc()) return is_negative ? -out : out;
  }
  if (auto const number = parse_float(*bound[0]); number && std::isfinite(*number)) {
    if (std::abs(*number) >= 9.2e18) throw render_error("an integer is too large");
    return static_cast<std::int64_t>(*number);
  }
  return bound[1] == nullptr ? value(std::int64_t{0}) : *bound[1];
}

[[nodiscard]] value absolute(environment& state, arguments& args) {
  auto const& operand = *bind(args, "abs", {"x"}, 1)[0];
  require_defined(operand);
  if (operand.integer())
    return *operand.integer() < 0 ? calculate(state, "*", operand, std::int64_t{-1})
                                  : value(*operand.integer());
  if (!operand.number())
    throw render_error("bad operand type for abs(): '" + type_name(operand) + "'");
  return std::abs(*operand.number());
}

[[nodiscard]] value round(environment& state, arguments& args) {
  auto const bound = bind(args, "round", {"value", "precision", "method"}, 1);
  require_defined(*bound[0]);
  auto const precision = bound[1] == nullptr ? 0 : require_integer(*bound[1]);
  auto const method = bound[2] == nullptr ? std::string("common") : to_string(*bound[2]);
  if (method != "common" && method != "ceil" && method != "floor")
    throw render_error("method must be common, ceil or floor");
  if (!bound[0]->number())
    throw render_error("round() expects a number, not " + type_name(*bound[0]));
  auto const number = *bound[0]->number();
  if (std::abs(precision) > 300) throw render_error("round() expects a precision within 300");
  if (method != "common") {
    auto const scale = calculate(state, "**", std::int64_t{10}, precision);
    auto const scaled = *calculate(state, "*", *bound[0], scale).number();
    auto const whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
    if (!(std::abs(whole) < 9.2e18)) throw render_error("an integer is too large");
    return calculate(state, "/", static_cast<std::int64_t>(whole), scale);
  }
  if (bound[0]->integer() && precision >= 0) return *bound[0]->integer();
  if (!std::isfinite(number)) return number;
  if (precision >= 0) return std::stod(fmt::format("{:.{}f}", number, precision));
  auto const unit = std::pow(10.0, static_cast<double>(-precision));
  auto const rounded = std::nearbyint(number / unit) * unit;
  return bound[0]->integer() ? value(static_cast<std::int64_t>(rounded)) : value(rounded);
}

// any value

[[nodiscard]] value defaulted(environment& /*state*/, arguments& args) {
  auto const bound = bind(args, "default", {"value", "default_value", "boolean"}, 1);
  bool const replaces_false = bound[2] != nullptr && is_true(*bound[2]);
  if (!bound[0]->is_undefined() && (!replaces_false || is_true(*bound[0]))) return *bound[0];
  return bound[1] == nullptr ? make_text("") : *bound[1];
}
[[nodiscard]] value count(environment& state, arguments& args) {
  auto const& self = *bind(args, "length", {"object"}, 1)[0];
  if (self.is_text()) state.work.spend(weight(self));
  return length(self);
}
[[nodiscard]] value attribute(environment& state, arguments& args) {
  auto const bound = bind(args, "attr", {"object", "name"}, 2);
  auto const name = to_string(*bound[1]);
  auto const& self = *bound[0];
  require_defined(self);
  bool const is_attribute =
      find_method(self, name) != nullptr ||
      (self.other() != nullptr && self.other()->attribute && self.other()->attribute(name)) ||
      name.starts_with("__");
  if (is_attribute) return get_attribute(state, self, name);
  return make_undefined("'" + type_name(self) + " object' has no attribute '" + name + "'");
}

using entry = std::pair<std::string_view, builtin>;

constexpr std::array table{
    entry{"abs", absolute},
    entry{"attr", attribute},
    entry{"capitalize", method_of_text<capitalize>},
    entry{"count", count},
    entry{"d", defaulted},
    entry{"default", defaulted},
    entry{"dictsort", sort_dictionary},
    entry{"e", escape},
    entry{"escape", escape},
    entry{"first", first_item},
    entry{"float", to_float},
    entry{"format", format},
    entry{"indent", indent},
    entry{"int", to_integer},
    entry{"items", pairs},
    entry{"join", join_items},
    entry{"last", last_item},
    entry{"length", count},
    entry{"list", list_items},
    entry{"lower", method_of_text<lower>},
    entry{"map", map_items},
    entry{"max", largest},
    entry{"min", smallest},
    entry{"reject", reject},
    entry{"rejectattr", reject_attribute},
    entry{"replace", replace},
    entry{"reverse", reverse},
    entry{"round", round},
    entry{"safe", mark_safe},
    entry{"select", select},
    entry{"selectattr", select_attribute},
    entry{"sort", sort},
    entry{"string", string},
    entry{"sum", sum},
    entry{"title", title},
    entry{"tojson", to_json},
    entry{"trim", method_of_text<strip>},
    entry{"unique", unique},
    entry{"upper", method_of_text<upper>},
};

}  // namespace
}  // namespace filters

builtin find_filter(std::string_view name) {
  auto const* const found = std::ranges::find(filters::table, name, &filters::entry::first);
  return found == filters::table.end() ? nullptr : found->second;
}

}  // namespace mpt::jinja
