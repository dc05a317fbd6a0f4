// value: the objects of Python that expressions of a chat template evaluate to.
//
// Strings, lists and dictionaries cannot be changed, as in jinja2's immutable sandbox; only the
// fields of a namespace can. A value is copied in constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace mpt::jinja {

/// The reason why a template cannot be rendered, without its line.
class render_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct arguments;
struct sequence;
struct mapping;
struct object;

/// jinja2's Undefined. The message is that of the error which its use raises.
struct undefined {
  std::shared_ptr<std::string const> message{};
};
/// Python's None.
struct none {};

/// A string in UTF-8.
struct text {
  std::shared_ptr<std::string const> utf8;
  bool is_markup = false;  ///< the result of the filters escape and safe
};

struct value
    : std::variant<undefined, none, bool, std::int64_t, double, text, std::shared_ptr<sequence>,
                   std::shared_ptr<mapping>, std::shared_ptr<object>> {
  using variant::variant;

  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(*this);
  }
  [[nodiscard]] bool is_text() const { return is<text>(); }
  [[nodiscard]] bool is_undefined() const { return is<undefined>(); }
  /// The string, sequence or dictionary of a value that is one; nullptr for other values.
  [[nodiscard]] std::string const* string() const;
  [[nodiscard]] sequence* items() const;
  [[nodiscard]] mapping* dictionary() const;
  [[nodiscard]] object* other() const;
  /// An int or a bool as Python converts it; nullopt for other values.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  /// An int, bool or float; nullopt for other values.
  [[nodiscard]] std::optional<double> number() const;
};

/// The type of a sequence in Python.
enum class sequence_kind : std::uint8_t { list, tuple, range, keys, values, items, iterator };

/// A list, a tuple, or another sequence of Python.
struct sequence {
  sequence_kind kind;
  std::vector<value> items;   ///< of an iterator: those that have not been read yet
  std::string description{};  ///< of a range or an iterator, as Python prints it
  std::size_t depth = 1;      ///< of the nested sequences and mappings
  std::size_t weight = 1;     ///< about the bytes of the whole printed
};

/// A dictionary in the order of insertion.
struct mapping {
  std::vector<std::pair<value, value>> entries{};
  std::size_t depth = 1;
  std::size_t weight = 1;
};

/// Anything else: a function, a macro, a method with its string, a loop, a namespace.
struct object {
  std::string description{};  ///< as Python prints it
  std::function<std::optional<value>(std::string_view)> attribute{};
  std::function<value(arguments&)> call{};
  std::shared_ptr<mapping> fields{};                ///< of a namespace
  std::function<std::vector<value>()> iteration{};  ///< the items that are left to a loop
  std::size_t depth = 0;                            ///< of what a method or a loop holds
};

/// The arguments of a call.
struct arguments {
  std::vector<value> positional{};
  std::vector<std::pair<std::string, value>> named{};
};

/// Arguments by the parameters of a function of Python; nullptr for those that are not given.
/// Throws for unknown and surplus arguments, and when fewer than `required` are given.
[[nodiscard]] std::vector<value const*> bind(arguments const& args, std::string_view function,
                                             std::initializer_list<std::string_view> parameters,
                                             std::size_t required);

/// A string.
[[nodiscard]] value make_text(std::string utf8, bool is_markup = false);
/// An undefined value, whose use is an error with this message.
[[nodiscard]] value make_undefined(std::string message);
/// Throw for values that are nested too deep, or too large when printed.
[[nodiscard]] value make_sequence(sequence_kind kind, std::vector<value> items,
                                  std::string description = {});
/// A dictionary.
[[nodiscard]] value make_mapping(std::vector<std::pair<value, value>> entries);
/// A function, which Python prints as `description`.
[[nodiscard]] value make_function(std::string description, std::function<value(arguments&)> call);
/// `holder`, which is an object, as one that holds `held`. Throws if it is nested too deep.
[[nodiscard]] value holding(value holder, value const& held);
/// The value of a JSON document.
[[nodiscard]] value from_json(nlohmann::ordered_json const& json);

/// About the bytes of a value when it is printed.
[[nodiscard]] std::size_t weight(value const& operand);

/// The value of a key in a dictionary; nullptr if it is missing. Throws for a key that Python
/// cannot hash.
[[nodiscard]] value* find(mapping const& entries, value const& key);
/// Sets or adds an entry.
void assign(mapping& entries, value const& key, value const& assigned);

/// bool() of Python.
[[nodiscard]] bool is_true(value const& operand);
/// == of Python.
[[nodiscard]] bool equals(value const& left, value const& right);
/// < of Python. Throws for types that have no order.
[[nodiscard]] bool is_less(value const& left, value const& right, std::string_view operation = "<");
/// `item in container` of Python.
[[nodiscard]] bool contains(value const& container, value const& item);
/// The items that a for loop reads: those of a sequence, the keys of a dictionary, the characters
/// of a string. Throws for other values.
[[nodiscard]] std::vector<value> iterate(value const& operand);
/// len(). Throws for a value without a length.
[[nodiscard]] std::int64_t length(value const& operand);

/// The name of a value's type in Python.
[[nodiscard]] std::string type_name(value const& operand);
/// str() and repr() of Python.
[[nodiscard]] std::string to_string(value const& operand);
/// repr() of Python.
[[nodiscard]] std::string to_repr(value const& operand);
[[nodiscard]] std::string to_string(double number);

/// Throws the error of an operation on an undefined value, if the value is one.
void require_defined(value const& operand);
/// The string or the int of a value, which may be a bool. Throws for other values.
[[nodiscard]] std::string const& require_text(value const& operand);
/// The int of a value, which may be a bool. Throws for other values.
[[nodiscard]] std::int64_t require_integer(value const& operand);
/// Whether an argument is there, and not None.
[[nodiscard]] bool is_given(value const* argument);

}  // namespace mpt::jinja
