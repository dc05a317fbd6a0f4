// jinja_strings: minja functions for the string operations that jinja_text.hpp rewrites, and string
// filters. They replace minja's own string operations, which count bytes instead of characters, and
// whose slices read out of bounds beyond the end of a string.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <minja/minja.hpp>

#include <mpt/tokenizer/python_string.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::detail {

/// Defines a function `name` for templates, with `min_count` to `max_count` positional arguments
/// and none by keyword. Error messages name it without the prefix "py_".
template <class F>
void set_function(minja::Context& context, std::string const& name, std::size_t min_count,
                  std::size_t max_count, F const& call) {
  context.set(name, minja::Value::callable([name, min_count, max_count, call](
                                               std::shared_ptr<minja::Context> const&,
                                               minja::ArgumentsValue& args) -> minja::Value {
                args.expectArgs(name.starts_with("py_") ? name.substr(3) : name,
                                {min_count, max_count}, {0, 0});
                return call(args.args);
              }));
}

/// The code points of a value's text.
[[nodiscard]] inline std::u32string characters(minja::Value const& value) {
  return python::decode(value.to_str());
}
[[nodiscard]] inline minja::Value text_value(std::u32string_view text) {
  return {python::encode(text)};
}
[[nodiscard]] inline minja::Value text_list(std::vector<std::u32string_view> const& parts) {
  auto out = minja::Value::array();
  for (auto const part : parts) out.push_back(text_value(part));
  return out;
}
/// A string as the list of its characters; any other value unchanged.
[[nodiscard]] inline minja::Value iterable_value(minja::Value const& value) {
  if (!value.is_string()) return value;
  auto const text = characters(value);
  auto out = minja::Value::array();
  for (auto const c : text) out.push_back(text_value({&c, 1}));
  return out;
}

/// value[index] of Python, where a string's items are characters; undefined beyond the ends.
[[nodiscard]] inline minja::Value subscript(minja::Value value, minja::Value const& index) {
  if (value.is_null())
    throw std::runtime_error("item " + index.dump() + " is read from an undefined value");
  if (!index.is_number_integer() || value.is_object()) return value.get(index);
  auto const item = index.get<std::int64_t>();
  auto const resolve = [&](std::size_t size) -> std::optional<std::size_t> {
    auto const count = static_cast<std::int64_t>(size);
    if (item < -count || item >= count) return std::nullopt;  // Undefined
    return static_cast<std::size_t>(item < 0 ? item + count : item);
  };
  if (value.is_string()) {
    auto const text = characters(value);
    auto const position = resolve(text.size());
    return position ? text_value({&text[*position], 1}) : minja::Value();
  }
  if (!value.is_array()) return {};
  auto const position = resolve(value.size());
  return position ? value.at(*position) : minja::Value();
}

/// value[begin:end:step] of Python for args = {value, begin, end, step}; a null bound is absent.
[[nodiscard]] inline minja::Value slice(std::vector<minja::Value>& args) {
  auto const integer_argument = [&](std::size_t argument) -> std::optional<std::int64_t> {
    if (args[argument].is_null()) return std::nullopt;
    if (!args[argument].is_number_integer())
      throw std::runtime_error("the bounds and the step of a slice must be integers");
    return args[argument].get<std::int64_t>();
  };
  auto const step = integer_argument(3).value_or(1);
  if (step == 0) throw std::runtime_error("slice step cannot be zero");
  auto const& value = args[0];
  if (value.is_array()) {
    auto items = minja::Value::array();
    for (auto const position :
         python::slice_indices(value.size(), integer_argument(1), integer_argument(2), step))
      items.push_back(value.at(position));
    return items;
  }
  if (value.is_null()) return {};  // Undefined
  if (!value.is_string()) throw std::runtime_error("only strings and lists have slices");
  auto const text = characters(value);
  std::u32string sliced;
  for (auto const position :
       python::slice_indices(text.size(), integer_argument(1), integer_argument(2), step))
    sliced += text[position];
  return text_value(sliced);
}

/// str.split() for args = {text, separator (null: white space), most splits (absent: no limit)}.
[[nodiscard]] inline minja::Value split(std::vector<minja::Value> const& args) {
  auto const max_splits = args.size() > 2 ? args[2].get<std::int64_t>() : std::int64_t{-1};
  auto const text = args[0].get<std::string>();
  if (args.size() < 2 || args[1].is_null())
    return text_list(python::split(python::decode(text), max_splits));
  auto const separator = args[1].get<std::string>();
  if (separator.empty()) throw std::runtime_error("empty separator");
  auto out = minja::Value::array();
  std::size_t begin = 0;
  for (std::int64_t split_count = 0; max_splits < 0 || split_count < max_splits; ++split_count) {
    auto const end = text.find(separator, begin);
    if (end == std::string::npos) break;
    out.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  out.push_back(text.substr(begin));
  return out;
}

/// str.replace() for args = {text, old text, new text, most replacements (absent: no limit)}.
[[nodiscard]] inline minja::Value replace(std::vector<minja::Value> const& args) {
  auto const text = args[0].get<std::string>();
  auto const old_text = args[1].get<std::string>();
  auto const new_text = args[2].get<std::string>();
  auto remaining = args.size() > 3 ? args[3].get<std::int64_t>() : std::int64_t{-1};
  std::string out;
  std::size_t position = 0;
  for (; remaining != 0; --remaining) {
    auto const end = old_text.empty() ? position : text.find(old_text, position);
    if (end == std::string::npos) break;
    out += text.substr(position, end - position) + new_text;
    position = end + old_text.size();
    if (!old_text.empty()) continue;
    if (position == text.size()) return out;
    auto const bytes = utf8::read(text, position).bytes;
    out += text.substr(position, bytes);
    position += bytes;
  }
  return {out + text.substr(position)};
}

/// The title filter of jinja2, which differs from str.title().
[[nodiscard]] inline std::u32string title_filter(std::u32string_view text) {
  std::u32string out;
  auto const is_separator = [](char32_t c) {
    return c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<' || python::is_space(c);
  };
  while (!text.empty()) {
    auto const size =
        static_cast<std::size_t>(std::ranges::find_if(text, is_separator) - text.begin());
    auto const word = text.substr(0, size);
    out += python::upper(word.substr(0, 1)) +
           python::lower(word.substr(std::min<std::size_t>(1, size)));
    text.remove_prefix(size);
    while (!text.empty() && is_separator(text.front())) {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

/// The name of a string method, and the function that computes it.
using case_conversion = std::pair<char const*, std::u32string (*)(std::u32string_view)>;

/// Defines the functions into which jinja_text.hpp rewrites subscripts, slices and string methods.
inline void set_string_methods(minja::Context& context) {
  using values = std::vector<minja::Value>;
  set_function(context, "py_item", 2, 2, [](values& v) { return subscript(v[0], v[1]); });
  set_function(context, "py_slice", 4, 4, slice);
  set_function(context, "py_items", 1, 1, [](values& v) { return iterable_value(v[0]); });
  std::array const conversions{
      case_conversion{"upper", python::upper}, case_conversion{"lower", python::lower},
      case_conversion{"title", python::title}, case_conversion{"capitalize", python::capitalize}};
  for (auto const& [name, convert] : conversions)
    set_function(context, std::string("py_") + name, 1, 1, [convert = convert](values& v) {
      return text_value(convert(python::decode(v[0].get<std::string>())));
    });
  for (std::string const name : {"strip", "lstrip", "rstrip"})
    set_function(context, "py_" + name, 1, 2, [name](values& v) {
      auto const text = python::decode(v[0].get<std::string>());
      std::u32string stripped;
      bool const has_argument = v.size() > 1 && !v[1].is_null();
      if (has_argument) stripped = python::decode(v[1].get<std::string>());
      return text_value(python::strip(
          text, name != "rstrip", name != "lstrip",
          has_argument ? std::optional<std::u32string_view>(stripped) : std::nullopt));
    });
  set_function(context, "py_split", 1, 3, [](values& v) { return split(v); });
  set_function(context, "py_replace", 3, 4, [](values& v) { return replace(v); });
}

/// Defines the filters on strings and lists.
inline void set_string_filters(minja::Context& context) {
  using values = std::vector<minja::Value>;
  std::array const conversions{
      case_conversion{"upper", python::upper}, case_conversion{"lower", python::lower},
      case_conversion{"title", title_filter}, case_conversion{"capitalize", python::capitalize}};
  for (auto const& [name, convert] : conversions)
    set_function(context, name, 1, 1, [convert = convert](values& v) {
      return v[0].is_null() ? minja::Value("") : text_value(convert(characters(v[0])));
    });
  set_function(context, "trim", 1, 2, [](values& v) {
    if (v[0].is_null()) return minja::Value("");
    std::u32string stripped;
    bool const has_argument = v.size() > 1 && !v[1].is_null();
    if (has_argument) stripped = characters(v[1]);
    return text_value(
        python::strip(characters(v[0]), true, true,
                      has_argument ? std::optional<std::u32string_view>(stripped) : std::nullopt));
  });
  for (char const* const name : {"length", "count"})
    set_function(context, name, 1, 1, [](values& v) {
      if (v[0].is_null()) return minja::Value(std::int64_t{0});  // Undefined
      auto const size = v[0].is_string() ? characters(v[0]).size() : v[0].size();
      return minja::Value(static_cast<std::int64_t>(size));
    });
  set_function(context, "first", 1, 1, [](values& v) {
    return subscript(iterable_value(v[0]), minja::Value(std::int64_t{0}));
  });
  set_function(context, "last", 1, 1, [](values& v) {
    return subscript(iterable_value(v[0]), minja::Value(std::int64_t{-1}));
  });
  set_function(context, "list", 1, 1, [](values& v) {
    if (v[0].is_null()) return minja::Value::array();
    auto items = minja::Value::array();
    iterable_value(v[0]).for_each([&](minja::Value& item) { items.push_back(item); });
    return items;
  });
  set_function(context, "reverse", 1, 1, [](values& v) {
    std::vector<minja::Value> reverse_slice{v[0], {}, {}, minja::Value(std::int64_t{-1})};
    return slice(reverse_slice);
  });
}

}  // namespace mpt::detail
