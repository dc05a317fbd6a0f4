// Values as Python prints them.
#include <array>
#include <charconv>
#include <cmath>

#include <mpt/tokenizer/chat/jinja/value.hpp>
#include <mpt/tokenizer/python_string.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace {

void append_hex(std::string& out, std::uint32_t code, int digits) {
  for (int digit = digits - 1; digit >= 0; --digit)
    out += "0123456789abcdef"[code >> (4 * digit) & 0xF];
}

[[nodiscard]] std::string quote_text(std::string_view text) {
  char const quote =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  std::string out(1, quote);
  for (std::size_t begin = 0; begin < text.size();) {
    auto const next = utf8::read(text, begin);
    auto const c = next.code_point;
    if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (python::is_printable(c)) {
      out += text.substr(begin, next.bytes);
    } else {
      int const digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
      out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
      append_hex(out, c, digits);
    }
    begin += next.bytes;
  }
  return out + quote;
}

[[nodiscard]] std::string repr_of(value const& operand, bool is_in_namespace);

[[nodiscard]] std::string joined_reprs(std::vector<value> const& items, bool is_in_namespace) {
  std::string out;
  for (auto const& item : items) out += (out.empty() ? "" : ", ") + repr_of(item, is_in_namespace);
  return out;
}

[[nodiscard]] std::string repr_of(sequence const& list, bool is_in_namespace) {
  auto const items = [&] { return joined_reprs(list.items, is_in_namespace); };
  switch (list.kind) {
    case sequence_kind::list: return "[" + items() + "]";
    case sequence_kind::tuple: return "(" + items() + (list.items.size() == 1 ? ",)" : ")");
    case sequence_kind::keys: return "dict_keys([" + items() + "])";
    case sequence_kind::values: return "dict_values([" + items() + "])";
    case sequence_kind::items: return "dict_items([" + items() + "])";
    case sequence_kind::range:
    case sequence_kind::iterator: break;
  }
  return list.description;
}

[[nodiscard]] std::string repr_of(mapping const& dictionary, bool is_in_namespace) {
  std::string out;
  for (auto const& [key, item] : dictionary.entries)
    out += (out.empty() ? "" : ", ") + repr_of(key, is_in_namespace) + ": " +
           repr_of(item, is_in_namespace);
  return "{" + out + "}";
}

/// Namespaces may hold each other, so that one in another is not printed.
std::string repr_of(value const& operand, bool is_in_namespace) {
  if (operand.is_undefined()) return "Undefined";
  if (operand.is<none>()) return "None";
  if (auto const* const found = std::get_if<bool>(&operand)) return *found ? "True" : "False";
  if (auto const* const found = std::get_if<std::int64_t>(&operand)) return std::to_string(*found);
  if (auto const* const found = std::get_if<double>(&operand)) return to_string(*found);
  if (auto const* const found = std::get_if<text>(&operand))
    return found->is_markup ? "Markup(" + quote_text(*found->utf8) + ")" : quote_text(*found->utf8);
  if (auto const* const list = operand.items()) return repr_of(*list, is_in_namespace);
  if (auto const* const dictionary = operand.dictionary())
    return repr_of(*dictionary, is_in_namespace);
  auto const& other = *operand.other();
  if (!other.fields) return other.description;
  if (is_in_namespace) return "<Namespace {...}>";
  return "<Namespace " + repr_of(*other.fields, true) + ">";
}

}  // namespace

std::string to_string(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::scientific)
                       .ptr;
  std::string const shortest(buffer.data(), end);  // as -1.25e+07
  auto const mark = shortest.find('e');
  auto const exponent = std::stoi(shortest.substr(mark + 1));
  if (exponent < -4 || exponent >= 16) return shortest;
  bool const is_negative = shortest.front() == '-';
  std::string digits;
  for (auto const c : shortest.substr(0, mark))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < 0) {
    digits = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else {
    auto const whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() < whole + 1) digits.resize(whole + 1, '0');
    digits.insert(whole, ".");
  }
  return (is_negative ? "-" : "") + digits;
}

std::string type_name(value const& operand) {
  if (operand.is_undefined()) return "Undefined";
  if (operand.is<none>()) return "NoneType";
  if (operand.is<bool>()) return "bool";
  if (operand.is<std::int64_t>()) return "int";
  if (operand.is<double>()) return "float";
  if (operand.is_text()) return "str";
  if (operand.dictionary() != nullptr) return "dict";
  auto const* const list = operand.items();
  if (list == nullptr) return operand.other()->fields ? "Namespace" : "function";
  switch (list->kind) {
    case sequence_kind::list: return "list";
    case sequence_kind::tuple: return "tuple";
    case sequence_kind::range: return "range";
    case sequence_kind::keys: return "dict_keys";
    case sequence_kind::values: return "dict_values";
    case sequence_kind::items: return "dict_items";
    case sequence_kind::iterator: return "generator";
  }
  return "";
}

std::string to_repr(value const& operand) { return repr_of(operand, false); }

std::string to_string(value const& operand) {
  if (operand.is_undefined()) return "";
  if (auto const* const string = operand.string()) return *string;
  return to_repr(operand);
}

}  // namespace mpt::jinja
