// Formatting of strings: % and str.format() of Python.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/python_string.hpp>

namespace mpt::jinja {
namespace {

using namespace std::string_view_literals;

[[nodiscard]] bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}
[[nodiscard]] std::string_view take_any(std::string_view& text, std::string_view characters) {
  auto const out = text.substr(0, text.find_first_not_of(characters));
  text.remove_prefix(out.size());
  return out;
}

/// Reads a width, a precision or an index, if one is there.
[[nodiscard]] std::optional<std::size_t> take_size(std::string_view& text) {
  auto const digits = take_any(text, "0123456789");
  if (digits.size() > 8) throw render_error("it needs too much memory");
  return digits.empty() ? std::nullopt : std::optional(std::stoul(std::string(digits)));
}

/// A string by [[fill]align][width][.precision], in characters.
[[nodiscard]] std::string format_text(environment& state, std::string_view text,
                                      std::string_view format) {
  auto characters = python::decode(text);
  auto const marks = python::decode(format);
  bool const has_fill = marks.size() > 1 && U"<>^"sv.find(marks[1]) != std::u32string_view::npos;
  bool const has_alignment =
      has_fill || (!marks.empty() && U"<>^"sv.find(marks[0]) != std::u32string_view::npos);
  char32_t const alignment = has_alignment ? marks[has_fill ? 1 : 0] : U'<';
  auto const rest_of_marks = python::encode(marks.substr(has_fill ? 2 : has_alignment ? 1 : 0));
  std::string_view rest = rest_of_marks;
  auto const width = take_size(rest).value_or(0);
  if (take(rest, '.')) characters.resize(std::min(characters.size(), take_size(rest).value_or(0)));
  static_cast<void>(take(rest, 's'));
  if (!rest.empty()) throw render_error("Invalid format specifier for a string");
  state.work.spend(4 * width);
  auto const missing = std::max(width, characters.size()) - characters.size();
  auto const left = alignment == U'<' ? 0 : alignment == U'^' ? missing / 2 : missing;
  characters.insert(0, left, has_fill ? marks[0] : U' ');
  return python::encode(characters.append(missing - left, has_fill ? marks[0] : U' '));
}

/// A value by the format that follows the colon of a field of str.format().
[[nodiscard]] std::string format_value(environment& state, value const& operand,
                                       std::string_view format) {
  if (format.empty()) return to_string(operand);
  if (operand.is_text()) return format_text(state, *operand.string(), format);
  if (!operand.number())
    throw render_error("unsupported format string passed to " + type_name(operand) + ".__format__");
  for (auto sizes = format; !sizes.empty();) {  // any number in it may be a width
    sizes.remove_prefix(std::min(sizes.find_first_of("123456789"), sizes.size()));
    state.work.spend(take_size(sizes).value_or(0));
  }
  bool const is_float = !operand.integer() ||
                        std::string_view("eEfFgG").find(format.back()) != std::string_view::npos;
  if (format.find_first_of("{}") != std::string_view::npos)
    throw render_error("Invalid format specifier");
  bool const is_whole = is_float && format.find_first_of(".eEfFgG") == std::string_view::npos &&
                        std::abs(*operand.number()) < 1e16 &&
                        std::trunc(*operand.number()) == *operand.number();
  auto const whole_format = fmt::format("{{:{}{}}}", format, is_whole ? ".1f" : "");
  try {
    if (is_float) return fmt::format(fmt::runtime(whole_format), *operand.number());
    return fmt::format(fmt::runtime(whole_format), *operand.integer());
  } catch (fmt::format_error const&) {
    throw render_error("Invalid format specifier '" + std::string(format) + "' for a number");
  }
}

/// One conversion of %, such as %-5.1f, whose % is read already.
struct percent_conversion {
  std::optional<std::string> key{};
  std::string flags{};
  std::string width{};
  std::string precision{};
  char type = 0;
};
[[nodiscard]] percent_conversion read_conversion(std::string_view& rest) {
  percent_conversion out;
  if (take(rest, '(')) {
    out.key = std::string(rest.substr(0, rest.find(')')));
    rest.remove_prefix(std::min(out.key->size() + 1, rest.size()));
  }
  out.flags = take_any(rest, "-+ 0#");
  out.width = take_any(rest, "0123456789");
  if (take(rest, '.')) out.precision = "." + std::string(take_any(rest, "0123456789"));
  if (rest.empty()) throw render_error("incomplete format");
  out.type = rest.front();
  rest.remove_prefix(1);
  return out;
}

[[nodiscard]] std::string apply(environment& state, percent_conversion const& conversion,
                                value const& operand) {
  auto const has = [&](char flag) { return conversion.flags.find(flag) != std::string::npos; };
  auto const& [key, flags, width, precision, type] = conversion;
  std::string const alignment = has('-') ? "<" : ">";
  if (type == 's' || type == 'r')
    return format_text(state, type == 's' ? to_string(operand) : to_repr(operand),
                       alignment + width + precision);
  require_defined(operand);
  bool const is_float = std::string_view("eEfFgG").find(type) != std::string_view::npos;
  bool const is_integer = std::string_view("diuxXo").find(type) != std::string_view::npos;
  if (!is_float && !is_integer)
    throw render_error(std::string("unsupported format character '") + type + "'");
  bool const needs_integer = is_integer && type != 'd' && type != 'i' && type != 'u';
  if (!operand.number() || (needs_integer && !operand.integer()) ||
      (is_integer && !(std::abs(*operand.number()) < 9.2e18)))
    throw render_error(std::string("%") + type + " format: a number is required, not " +
                       type_name(operand));
  auto const sign = has('+') ? "+" : has(' ') ? " " : "";
  auto const format = (has('0') && !has('-') ? "" : alignment) + sign + (has('#') ? "#" : "") +
                      (has('0') && !has('-') ? "0" : "") + width + precision +
                      (type == 'i' || type == 'u' ? 'd' : type);
  value const whole = operand.integer() ? operand : static_cast<std::int64_t>(*operand.number());
  return format_value(state, is_integer ? whole : operand, format);
}

/// The fields of str.format().
class brace_formatter {
 public:
  brace_formatter(environment& state, arguments const& args) : state_(state), args_(args) {}

  [[nodiscard]] std::string format(std::string_view text, int depth = 0) {
    if (depth > 2) throw render_error("Max string recursion exceeded");
    std::string out;
    while (!text.empty()) {
      state_.work.spend(1);
      char const c = text.front();
      text.remove_prefix(1);
      if ((c == '{' || c == '}') && take(text, c))
        out += c;
      else if (c == '{')
        out += field(text, depth);
      else if (c == '}')
        throw render_error("Single '}' encountered in format string");
      else
        out += c;
    }
    return out;
  }

 private:
  /// A field up to its }, which is removed from `rest`.
  [[nodiscard]] std::string field(std::string_view& rest, int depth) {
    std::size_t end = 0;
    for (int open = 1; end < rest.size(); ++end) {
      open += rest[end] == '{' ? 1 : rest[end] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (end == rest.size()) throw render_error("expected '}' before end of string");
    auto text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    auto const name = text.substr(0, text.find_first_of("!:"));
    text.remove_prefix(name.size());
    auto shown = look_up(name);
    if (take(text, '!')) {
      if (!text.starts_with('r') && !text.starts_with('s'))
        throw render_error("Unknown conversion specifier in a format string");
      shown = make_text(text.starts_with('r') ? to_repr(shown) : to_string(shown));
      text.remove_prefix(1);
    }
    if (!text.empty() && !take(text, ':')) throw render_error("expected ':' after conversion");
    state_.work.spend(weight(shown));
    return format_value(state_, shown, format(text, depth + 1));
  }

  [[nodiscard]] value look_up(std::string_view name) {
    auto const first = name.substr(0, name.find_first_of(".["));
    name.remove_prefix(first.size());
    auto out = argument(first);
    while (!name.empty()) {
      bool const is_attribute = take(name, '.');
      if (!is_attribute) name.remove_prefix(1);  // [
      std::string const part(name.substr(0, name.find_first_of(is_attribute ? ".[" : "]")));
      name.remove_prefix(std::min(part.size() + (is_attribute ? 0 : 1), name.size()));
      std::string_view digits = part;
      auto const index = take_size(digits);
      auto const key =
          index && digits.empty() ? value(static_cast<std::int64_t>(*index)) : make_text(part);
      out = is_attribute ? get_attribute(state_, out, part) : get_item(state_, out, key);
    }
    return out;
  }

  [[nodiscard]] value argument(std::string_view name) {
    auto digits = name;
    auto const number = take_size(digits);
    (name.empty() ? is_automatic_ : is_manual_) |= name.empty() || number.has_value();
    if (is_automatic_ && is_manual_)
      throw render_error("cannot switch between automatic and manual field numbering");
    if (name.empty() || (number && digits.empty())) {
      auto const index = name.empty() ? next_++ : *number;
      if (index < args_.positional.size()) return args_.positional[index];
      throw render_error("Replacement index " + std::to_string(index) + " out of range");
    }
    for (auto const& [keyword, item] : args_.named)
      if (keyword == name) return item;
    throw render_error("a format string names '" + std::string(name) + "', which is missing");
  }

  environment& state_;
  arguments const& args_;
  std::size_t next_ = 0;
  bool is_automatic_ = false;  // a field without a number was read
  bool is_manual_ = false;     // a field with a number was read
};

}  // namespace

std::string format_percent(environment& state, std::string_view format, value const& values) {
  bool const is_tuple = values.items() != nullptr && values.items()->kind == sequence_kind::tuple;
  auto const items = is_tuple ? values.items()->items : std::vector{values};
  std::size_t used = 0;
  bool has_keys = false;
  std::string out;
  while (!format.empty()) {
    if (!take(format, '%')) {
      out += format.substr(0, format.find('%'));
      format.remove_prefix(std::min(format.find('%'), format.size()));
      continue;
    }
    auto const conversion = read_conversion(format);
    if (conversion.type == '%') {
      out += '%';
      continue;
    }
    has_keys = has_keys || conversion.key;
    if (!conversion.key && used == items.size())
      throw render_error("not enough arguments for format string");
    if (conversion.key && values.dictionary() == nullptr)
      throw render_error("format requires a mapping");
    auto const* const operand =
        conversion.key ? find(*values.dictionary(), make_text(*conversion.key)) : &items[used++];
    if (operand == nullptr)
      throw render_error("a format names '" + *conversion.key + "', which is missing");
    state.work.spend(weight(*operand));
    out += apply(state, conversion, *operand);
  }
  bool const may_be_unused = values.is_undefined() || values.dictionary() != nullptr ||
                             (values.items() != nullptr && !is_tuple);
  if (used < items.size() && !has_keys && !may_be_unused)
    throw render_error("not all arguments converted during string formatting");
  return out;
}

std::string format_braces(environment& state, std::string_view format, arguments const& args) {
  return brace_formatter(state, args).format(format);
}

}  // namespace mpt::jinja
