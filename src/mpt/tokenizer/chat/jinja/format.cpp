// Formatting of strings: % and str.format() of Python.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/python_string.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace {

/// How a value is formatted: [[fill]align][sign][#][0][width][,][.precision][type].
struct specification {
  std::string fill = " ";
  char alignment = 0;
  char sign = '-';
  bool is_alternative = false;
  std::string grouping{};
  std::optional<std::size_t> width{};
  std::optional<std::size_t> precision{};
  char type = 0;
};

[[nodiscard]] std::optional<std::size_t> read_size(std::string_view& text) {
  std::size_t out = 0;
  auto const result = std::from_chars(text.data(), text.data() + text.size(), out);
  if (result.ptr == text.data()) return std::nullopt;
  if (result.ec != std::errc() || out > (std::size_t{1} << 28))
    throw render_error("a width or a precision is too large");
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return out;
}

[[nodiscard]] bool is_alignment(std::string_view text) {
  return !text.empty() && std::string_view("<>=^").find(text.front()) != std::string_view::npos;
}
[[nodiscard]] bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

[[nodiscard]] specification read_specification(std::string_view text) {
  specification out;
  auto const fill_bytes = text.empty() ? 0 : utf8::read(text, 0).bytes;
  if (is_alignment(text.substr(fill_bytes))) {
    out.fill = text.substr(0, fill_bytes);
    text.remove_prefix(fill_bytes);
  }
  if (is_alignment(text)) {
    out.alignment = text.front();
    text.remove_prefix(1);
  }
  if (!text.empty() && std::string_view("+- ").find(text.front()) != std::string_view::npos) {
    out.sign = text.front();
    text.remove_prefix(1);
  }
  out.is_alternative = take(text, '#');
  if (take(text, '0')) {
    if (out.alignment == 0) {
      out.fill = "0";
      out.alignment = '=';
    }
  }
  out.width = read_size(text);
  if (take(text, ',')) out.grouping = ",";
  if (take(text, '_')) out.grouping = "_";
  if (take(text, '.')) {
    out.precision = read_size(text);
    if (!out.precision) throw render_error("Format specifier missing precision");
  }
  if (text.size() > 1) throw render_error("Invalid format specifier");
  if (!text.empty()) out.type = text.front();
  return out;
}

[[nodiscard]] std::string padded(specification const& format, std::string const& sign,
                                 std::string const& text, char default_alignment) {
  auto const size = static_cast<std::size_t>(length(make_text(sign + text)));
  auto const missing = format.width.value_or(0) > size ? *format.width - size : 0;
  char const alignment = format.alignment == 0 ? default_alignment : format.alignment;
  auto const left = alignment == '<' ? 0 : alignment == '^' ? missing / 2 : missing;
  std::string left_fill;
  std::string right_fill;
  for (std::size_t i = 0; i < missing; ++i) (i < left ? left_fill : right_fill) += format.fill;
  return alignment == '=' ? sign + left_fill + text : left_fill + sign + text + right_fill;
}

[[nodiscard]] std::string grouped(std::string const& digits, std::string const& separator) {
  if (separator.empty()) return digits;
  auto const whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

[[nodiscard]] std::string sign_of(bool is_negative, char sign) {
  return is_negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

[[nodiscard]] std::string format_integer(specification const& format, std::int64_t number) {
  if (format.precision) throw render_error("Precision not allowed in integer format specifier");
  auto const magnitude =
      number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  std::string digits;
  std::string prefix;
  switch (format.type) {
    case 0:
    case 'd':
    case 'n': digits = grouped(std::to_string(magnitude), format.grouping); break;
    case 'b': prefix = "0b", digits = fmt::format("{:b}", magnitude); break;
    case 'o': prefix = "0o", digits = fmt::format("{:o}", magnitude); break;
    case 'x': prefix = "0x", digits = fmt::format("{:x}", magnitude); break;
    case 'X': prefix = "0X", digits = fmt::format("{:X}", magnitude); break;
    case 'c': {
      if (number < 0 || number > 0x10FFFF) throw render_error("%c arg not in range(0x110000)");
      return padded(format, "", python::encode(std::u32string(1, static_cast<char32_t>(number))),
                    '<');
    }
    default:
      throw render_error(std::string("Unknown format code '") + format.type +
                         "' for object of type 'int'");
  }
  if (!format.is_alternative) prefix.clear();
  return padded(format, sign_of(number < 0, format.sign) + prefix, digits, '>');
}

[[nodiscard]] std::string format_float(specification const& format, double number) {
  bool const is_negative = std::signbit(number) && !std::isnan(number);
  auto const magnitude = std::abs(number);
  auto const precision = static_cast<int>(format.precision.value_or(6));
  char const lower = static_cast<char>(format.type | 0x20);
  std::string digits;
  if (format.type == 0 && !format.precision)
    digits = to_string(magnitude);
  else if (!std::isfinite(magnitude))
    digits = to_string(magnitude);
  else if (lower == 'f')
    digits = fmt::format("{:.{}f}", magnitude, precision);
  else if (lower == 'e')
    digits = fmt::format("{:.{}e}", magnitude, precision);
  else if (lower == 'g' || format.type == 0 || format.type == 'n')
    digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  else if (format.type == '%')
    digits = fmt::format("{:.{}f}%", magnitude * 100, precision);
  else
    throw render_error(std::string("Unknown format code '") + format.type +
                       "' for object of type 'float'");
  if (format.type == 0 && format.precision && digits.find_first_of(".e") == std::string::npos)
    digits += ".0";
  if (format.type >= 'A' && format.type <= 'Z')
    std::ranges::transform(digits, digits.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    });
  return padded(format, sign_of(is_negative, format.sign), grouped(digits, format.grouping), '>');
}

[[nodiscard]] std::string format_text(specification const& format, std::string const& text) {
  if (format.type != 0 && format.type != 's')
    throw render_error(std::string("Unknown format code '") + format.type +
                       "' for object of type 'str'");
  if (!format.precision) return padded(format, "", text, '<');
  auto const characters = python::decode(text);
  return padded(
      format, "",
      python::encode(characters.substr(0, std::min(*format.precision, characters.size()))), '<');
}

[[nodiscard]] std::string format_value(environment& state, value const& formatted,
                                       std::string_view text) {
  if (text.empty()) return to_string(formatted);
  auto const format = read_specification(text);
  state.work.spend(format.width.value_or(0) + format.precision.value_or(0));
  bool const is_float_type =
      format.type != 0 && std::string_view("eEfFgG%").find(format.type) != std::string_view::npos;
  if (formatted.is_text()) return format_text(format, *formatted.string());
  if (formatted.is<bool>() && format.type == 0) return format_text(format, to_string(formatted));
  if (formatted.integer() && !is_float_type) return format_integer(format, *formatted.integer());
  if (formatted.number()) return format_float(format, *formatted.number());
  throw render_error("unsupported format string passed to " + type_name(formatted) + ".__format__");
}

/// One conversion such as %-5.1f, whose % is read already.
class percent_conversion {
 public:
  percent_conversion(environment& state, std::string_view& rest) : state_(state) {
    if (take(rest, '(')) {
      auto const end = rest.find(')');
      if (end == std::string_view::npos) throw render_error("incomplete format key");
      key = std::string(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    for (; !rest.empty() && std::string_view("-+ 0#").find(rest.front()) != std::string_view::npos;
         rest.remove_prefix(1)) {
      char const flag = rest.front();
      if (flag == '-') format_.alignment = '<';
      if (flag == '+' || (flag == ' ' && format_.sign == '-')) format_.sign = flag;
      if (flag == '0') is_filled_with_zeros_ = true;
      if (flag == '#') format_.is_alternative = true;
    }
    format_.width = read_size(rest);
    if (take(rest, '.')) format_.precision = read_size(rest).value_or(0);
    while (!rest.empty() && (rest.front() == 'l' || rest.front() == 'h' || rest.front() == 'L'))
      rest.remove_prefix(1);
    if (rest.empty()) throw render_error("incomplete format");
    type_ = rest.front();
    rest.remove_prefix(1);
    state_.work.spend(format_.width.value_or(0) + format_.precision.value_or(0));
  }

  [[nodiscard]] bool is_percent() const { return type_ == '%'; }

  [[nodiscard]] std::string apply(value const& formatted) {
    if (format_.alignment == 0) format_.alignment = '>';
    if (type_ == 's') return format_text(format_, to_string(formatted));
    if (type_ == 'r' || type_ == 'a') return format_text(format_, to_repr(formatted));
    if (type_ == 'c' && formatted.is_text()) {
      if (length(formatted) != 1) throw render_error("%c requires int or char");
      return format_text(format_, *formatted.string());
    }
    require_defined(formatted);
    bool const is_float = std::string_view("eEfFgG").find(type_) != std::string_view::npos;
    bool const is_integer = std::string_view("diuxXoc").find(type_) != std::string_view::npos;
    if (!is_float && !is_integer)
      throw render_error(std::string("unsupported format character '") + type_ + "'");
    if (!formatted.number() || (type_ == 'c' && !formatted.integer()))
      throw render_error(std::string("%") + type_ + " format: a real number is required, not " +
                         type_name(formatted));
    if (is_filled_with_zeros_ && format_.alignment != '<') {
      format_.fill = "0";
      format_.alignment = '=';
    }
    format_.type = type_ == 'i' || type_ == 'u' ? 'd' : type_;
    if (is_float) return format_float(format_, *formatted.number());
    auto const number = *formatted.number();
    if (!formatted.integer() && (type_ == 'x' || type_ == 'X' || type_ == 'o'))
      throw render_error(std::string("%") + type_ + " format: an integer is required, not float");
    if (!formatted.integer() && !(std::abs(number) < 9.2e18))
      throw render_error("a number is too large");
    return format_digits(formatted.integer().value_or(static_cast<std::int64_t>(number)));
  }

  std::optional<std::string> key;

 private:
  /// An integer, whose precision is the least number of its digits.
  [[nodiscard]] std::string format_digits(std::int64_t number) const {
    if (!format_.precision || type_ == 'c') return format_integer(format_, number);
    auto digits = format_;
    digits.width.reset();
    digits.precision.reset();
    auto text = format_integer(digits, number);
    auto const sign =
        std::size_t{!text.empty() && (text.front() < '0' || text.front() > '9') ? 1U : 0U};
    if (text.size() - sign < *format_.precision)
      text.insert(sign, *format_.precision - (text.size() - sign), '0');
    return padded(format_, text.substr(0, sign), text.substr(sign), '>');
  }

  environment& state_;
  specification format_;
  bool is_filled_with_zeros_ = false;
  char type_ = 0;
};

/// The fields of str.format().
class brace_formatter {
 public:
  brace_formatter(environment& state, arguments const& args) : state_(state), given_(args) {}

  [[nodiscard]] std::string format(std::string_view text, int depth = 0) {
    if (depth > 2) throw render_error("Max string recursion exceeded");
    std::string out;
    while (!text.empty()) {
      char const c = text.front();
      if ((c == '{' || c == '}') && text.size() > 1 && text[1] == c) {
        out += c;
        text.remove_prefix(2);
      } else if (c == '{') {
        text.remove_prefix(1);
        out += field(text, depth);
      } else if (c == '}') {
        throw render_error("Single '}' encountered in format string");
      } else {
        auto const end = std::min(text.find_first_of("{}"), text.size());
        out += text.substr(0, end);
        text.remove_prefix(end);
      }
      state_.work.spend(1);
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
    auto name = text.substr(0, text.find_first_of("!:"));
    text.remove_prefix(name.size());
    auto shown = look_up(name);
    if (take(text, '!')) {
      auto const conversion = text.substr(0, 1);
      text.remove_prefix(conversion.size());
      if (conversion == "s")
        shown = make_text(to_string(shown));
      else if (conversion == "r" || conversion == "a")
        shown = make_text(to_repr(shown));
      else
        throw render_error("Unknown conversion specifier in a format string");
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
      bool const is_attribute = name.front() == '.';
      name.remove_prefix(1);
      auto const end = std::min(name.find_first_of(is_attribute ? ".[" : "]"), name.size());
      std::string const part(name.substr(0, end));
      if (part.empty()) throw render_error("Empty attribute in format string");
      name.remove_prefix(std::min(end + (is_attribute ? 0 : 1), name.size()));
      auto digits = std::string_view(part);
      auto const index = read_size(digits);
      out = is_attribute              ? get_attribute(state_, out, part)
            : index && digits.empty() ? get_item(state_, out, static_cast<std::int64_t>(*index))
                                      : get_item(state_, out, make_text(part));
    }
    return out;
  }

  [[nodiscard]] value argument(std::string_view name) {
    auto digits = name;
    auto const index = name.empty() ? std::optional(next_++) : read_size(digits);
    (name.empty() ? is_automatic_ : is_manual_) = name.empty() || index.has_value();
    if (is_automatic_ && is_manual_)
      throw render_error("cannot switch between automatic and manual field numbering");
    if (index && digits.empty()) {
      if (*index >= given_.positional.size())
        throw render_error("Replacement index " + std::to_string(*index) +
                           " out of range for positional args tuple");
      return given_.positional[*index];
    }
    for (auto const& [keyword, item] : given_.named)
      if (keyword == name) return item;
    throw render_error("a format string names '" + std::string(name) + "', which is not given");
  }

  environment& state_;
  arguments const& given_;
  std::size_t next_ = 0;
  bool is_automatic_ = false;  // a field without a number was read
  bool is_manual_ = false;     // a field with a number was read
};

}  // namespace

std::string format_percent(environment& state, std::string_view format, value const& values) {
  bool const is_tuple = values.items() != nullptr && values.items()->kind == sequence_kind::tuple;
  auto const items = is_tuple ? values.items()->items : std::vector{values};
  std::size_t used = 0;
  std::string out;
  bool has_keys = false;
  while (!format.empty()) {
    auto const mark = std::min(format.find('%'), format.size());
    out += format.substr(0, mark);
    format.remove_prefix(mark);
    if (format.empty()) break;
    format.remove_prefix(1);
    percent_conversion conversion(state, format);
    if (conversion.is_percent()) {
      out += '%';
      continue;
    }
    value formatted;
    if (conversion.key) {
      if (values.dictionary() == nullptr) throw render_error("format requires a mapping");
      has_keys = true;
      auto const* const found = find(*values.dictionary(), make_text(*conversion.key));
      if (found == nullptr)
        throw render_error("a format names '" + *conversion.key + "', which is not given");
      formatted = *found;
    } else {
      if (used == items.size()) throw render_error("not enough arguments for format string");
      formatted = items[used++];
    }
    state.work.spend(weight(formatted));
    out += conversion.apply(formatted);
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
