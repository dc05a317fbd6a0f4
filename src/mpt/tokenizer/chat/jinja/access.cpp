// Attributes, items, slices, arithmetic and calls.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/python_string.hpp>

namespace mpt::jinja {
namespace {

[[nodiscard]] value missing_attribute(value const& self, value const& name) {
  auto owner = type_name(self);
  if (self.is<none>())
    owner = "None";
  else
    owner = "'" + owner + " object'";
  return make_undefined(owner + " has no " + (name.is_text() ? "attribute " : "element ") +
                        to_repr(name));
}

/// A method or a field of an object; nullopt if Python's getattr() would fail.
[[nodiscard]] std::optional<value> attribute(environment& state, value const& self,
                                             std::string const& name) {
  if (auto const* const other = self.other(); other != nullptr && other->attribute)
    if (auto found = other->attribute(name)) return found;
  if (auto const method = find_method(self, name))
    return holding(make_function("<built-in method " + name + ">",
                                 [&state, self, method](arguments& args) {
                                   args.positional.insert(args.positional.begin(), self);
                                   return method(state, args);
                                 }),
                   self);
  constexpr std::array changing{"append", "clear",  "pop",     "reverse", "insert",    "sort",
                                "extend", "remove", "popitem", "update",  "setdefault"};
  bool const is_changing = std::ranges::find(changing, name) != changing.end() &&
                           (self.dictionary() != nullptr ||
                            (self.items() != nullptr && self.items()->kind == sequence_kind::list));
  bool const is_internal = name.size() > 4 && name.starts_with("__") && name.ends_with("__");
  if (!is_changing && !is_internal) return std::nullopt;
  return make_undefined("access to attribute '" + name + "' of '" + type_name(self) +
                        "' object is unsafe.");
}

/// self[key], or nullopt if Python raises a TypeError or a LookupError.
[[nodiscard]] std::optional<value> item(environment& state, value const& self, value const& key) {
  if (auto const* const dictionary = self.dictionary()) {
    auto const* const string = key.string();
    auto const size = dictionary->entries.size();
    state.work.spend(size + (string == nullptr ? weight(key) : string->size() / 64) * size);
    if (key.dictionary() != nullptr ||
        (key.items() != nullptr && key.items()->kind == sequence_kind::list))
      return std::nullopt;
    auto const* const found = find(*dictionary, key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  auto const index = key.integer();
  if (!index) return std::nullopt;
  auto const position = [&](std::int64_t size) -> std::optional<std::size_t> {
    if (*index < -size || *index >= size) return std::nullopt;
    return static_cast<std::size_t>(*index < 0 ? *index + size : *index);
  };
  if (auto const* const string = self.string()) {
    state.work.spend(string->size() / 4);
    auto const characters = python::decode(*string);
    auto const found = position(static_cast<std::int64_t>(characters.size()));
    if (!found) return std::nullopt;
    return make_text(python::encode({&characters[*found], 1}));
  }
  auto const* const list = self.items();
  bool const has_items =
      list != nullptr && (list->kind == sequence_kind::list || list->kind == sequence_kind::tuple ||
                          list->kind == sequence_kind::range);
  if (!has_items) return std::nullopt;
  auto const found = position(static_cast<std::int64_t>(list->items.size()));
  return found ? std::optional(list->items[*found]) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view operation, value const& left, value const& right) {
  require_defined(left);
  require_defined(right);
  throw render_error("unsupported operand type(s) for " + std::string(operation) + ": '" +
                     type_name(left) + "' and '" + type_name(right) + "'");
}

[[nodiscard]] std::int64_t floor_quotient(std::int64_t left, std::int64_t right) {
  auto const quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);
}

[[nodiscard]] value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw render_error("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  std::int64_t out = 1;
  for (; exponent > 0; exponent >>= 1) {
    bool const is_odd = (exponent & 1) != 0;
    if ((is_odd && __builtin_mul_overflow(out, base, &out)) ||
        (exponent > 1 && __builtin_mul_overflow(base, base, &base)))
      throw render_error("an integer is too large");
  }
  return out;
}

[[nodiscard]] value calculate_integers(std::string_view operation, std::int64_t left,
                                       std::int64_t right) {
  std::int64_t out = 0;
  bool overflows = false;
  if (operation == "+") {
    overflows = __builtin_add_overflow(left, right, &out);
  } else if (operation == "-") {
    overflows = __builtin_sub_overflow(left, right, &out);
  } else if (operation == "*") {
    overflows = __builtin_mul_overflow(left, right, &out);
  } else if (operation == "**") {
    return integer_power(left, right);
  } else {
    if (right == 0)
      throw render_error(operation == "/" ? "division by zero"
                                          : "integer division or modulo by zero");
    if (operation == "/") return static_cast<double>(left) / static_cast<double>(right);
    overflows = right == -1 && left == std::numeric_limits<std::int64_t>::min();
    if (!overflows) {
      auto const quotient = floor_quotient(left, right);
      out = operation == "//" ? quotient : left - quotient * right;
    }
  }
  if (overflows) throw render_error("an integer is too large");
  return out;
}

[[nodiscard]] value calculate_floats(std::string_view operation, double left, double right) {
  if (operation == "+") return left + right;
  if (operation == "-") return left - right;
  if (operation == "*") return left * right;
  if (operation == "**") {
    auto const out = std::pow(left, right);
    if (left == 0 && right < 0) throw render_error("0.0 cannot be raised to a negative power");
    if (std::isnan(out) && !std::isnan(left) && !std::isnan(right))
      throw render_error("complex numbers are not supported");
    if (std::isinf(out) && std::isfinite(left) && std::isfinite(right))
      throw render_error("a number is too large");
    return out;
  }
  if (right == 0) throw render_error("float division by zero");
  if (operation == "/") return left / right;
  auto remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (operation == "%") return remainder == 0 ? std::copysign(0.0, right) : remainder;
  auto const quotient = (left - remainder) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  auto floor = std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1;
  return floor;
}

[[nodiscard]] value repeat(environment& state, value const& repeated, std::int64_t count) {
  auto const copies = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  auto const size = weight(repeated);
  if (copies > 0 && size > (std::size_t{1} << 40) / copies)
    throw render_error("it needs too much memory");
  state.work.spend(size * copies);
  if (auto const* const string = repeated.string()) {
    std::string out;
    for (std::size_t i = 0; i < copies && !string->empty(); ++i) out += *string;
    return make_text(std::move(out));
  }
  std::vector<value> out;
  for (std::size_t i = 0; i < copies && !repeated.items()->items.empty(); ++i)
    out.insert(out.end(), repeated.items()->items.begin(), repeated.items()->items.end());
  return new_sequence(state, repeated.items()->kind, std::move(out));
}

[[nodiscard]] bool is_list_or_tuple(value const& operand) {
  return operand.items() != nullptr && (operand.items()->kind == sequence_kind::list ||
                                        operand.items()->kind == sequence_kind::tuple);
}

[[nodiscard]] value add_texts(environment& state, text const& left, text const& right) {
  auto const escaped = [&](text const& one) {
    bool const is_escaped = (left.is_markup || right.is_markup) && !one.is_markup;
    if (!is_escaped) return *one.utf8;
    arguments args{.positional = {one}};
    return *find_filter("escape")(state, args).string();
  };
  auto out = escaped(left) + escaped(right);
  state.work.spend(out.size());
  return make_text(std::move(out), left.is_markup || right.is_markup);
}

}  // namespace

value get_attribute(environment& state, value const& self, std::string const& name) {
  require_defined(self);
  auto const key = make_text(name);
  bool const is_entry_of_dunder = name.starts_with("__") && self.dictionary() != nullptr &&
                                  find(*self.dictionary(), key) != nullptr;
  if (!is_entry_of_dunder)
    if (auto found = attribute(state, self, name)) return *found;
  if (auto found = item(state, self, key)) return *found;
  return missing_attribute(self, key);
}

value get_item(environment& state, value const& self, value const& key) {
  require_defined(self);
  if (auto found = item(state, self, key)) return *found;
  if (key.is_text())
    if (auto found = attribute(state, self, *key.string())) return *found;
  return missing_attribute(self, key);
}

value get_slice(environment& state, value const& self, value const& begin, value const& end,
                value const& step) {
  require_defined(self);
  bool const is_range = self.items() != nullptr && self.items()->kind == sequence_kind::range;
  if (!self.is_text() && !is_list_or_tuple(self) && !is_range)
    throw render_error("'" + type_name(self) + "' object has no slices");
  for (auto const* const part : {&begin, &end, &step})
    if (!part->is<none>()) static_cast<void>(require_integer(*part));
  auto const stride = step.integer().value_or(1);
  if (stride == 0) throw render_error("slice step cannot be zero");
  if (auto const* const string = self.string()) {
    state.work.spend(string->size());
    auto const characters = python::decode(*string);
    std::u32string out;
    for (auto const i :
         python::slice_indices(characters.size(), begin.integer(), end.integer(), stride))
      out += characters[i];
    return new_text(state, python::encode(out));
  }
  std::vector<value> out;
  auto const& items = self.items()->items;
  for (auto const i : python::slice_indices(items.size(), begin.integer(), end.integer(), stride))
    out.push_back(items[i]);
  return new_sequence(state, self.items()->kind, std::move(out));
}

value calculate(environment& state, std::string_view operation, value const& left,
                value const& right) {
  if (auto const a = left.integer(), b = right.integer(); a && b)
    return calculate_integers(operation, *a, *b);
  if (auto const a = left.number(), b = right.number(); a && b)
    return calculate_floats(operation, *a, *b);
  if (operation == "%" && left.is_text())
    return new_text(state, format_percent(state, *left.string(), right));
  if (operation == "*") {
    for (auto const& [repeated, count] : {std::pair{&left, &right}, std::pair{&right, &left}})
      if ((repeated->is_text() || is_list_or_tuple(*repeated)) && count->integer())
        return repeat(state, *repeated, *count->integer());
  }
  if (operation == "+" && left.is_text() && right.is_text())
    return add_texts(state, std::get<text>(left), std::get<text>(right));
  if (operation == "+" && is_list_or_tuple(left) && is_list_or_tuple(right) &&
      left.items()->kind == right.items()->kind) {
    auto out = left.items()->items;
    out.insert(out.end(), right.items()->items.begin(), right.items()->items.end());
    return new_sequence(state, left.items()->kind, std::move(out));
  }
  refuse(operation, left, right);
}

value call(value const& function, arguments& args) {
  require_defined(function);
  auto const* const other = function.other();
  if (other == nullptr || !other->call)
    throw render_error("'" + type_name(function) + "' object is not callable");
  return other->call(args);
}

value new_text(environment& state, std::string utf8) {
  state.work.spend(utf8.size());
  return make_text(std::move(utf8));
}

value new_sequence(environment& state, sequence_kind kind, std::vector<value> items) {
  state.work.spend(64 * (items.size() + 1));
  std::string description;
  if (kind == sequence_kind::iterator) description = "<generator object>";
  if (kind == sequence_kind::range) {
    auto const first = items.empty() ? 0 : *items.front().integer();
    auto const step = items.size() < 2 ? 1 : *items[1].integer() - first;
    description = "range(" + std::to_string(first) + ", " +
                  std::to_string(first + step * static_cast<std::int64_t>(items.size())) +
                  (step == 1 ? "" : ", " + std::to_string(step)) + ")";
  }
  return make_sequence(kind, std::move(items), std::move(description));
}

}  // namespace mpt::jinja
