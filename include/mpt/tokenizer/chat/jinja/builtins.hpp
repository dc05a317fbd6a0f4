// builtins: what a chat template can call: filters, tests, methods of Python's types and global
// functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/chat/jinja/value.hpp>

namespace mpt::jinja {

/// What a rendering may still do, so that a hostile template ends.
class work_limit {
 public:
  /// Throws when a rendering has done too much. A byte of text costs 1.
  void spend(std::size_t work) {
    if (work > left_) throw render_error("it does not end, or needs too much memory");
    left_ -= work;
  }

 private:
  std::size_t left_ = std::size_t{1} << 29;
};

/// The state that functions share.
struct environment {
  std::chrono::local_seconds date;  ///< that strftime_now shows
  work_limit work{};
};

/// A filter; nullptr for an unknown name. The first positional argument is the value in front of
/// the filter.
using builtin = value (*)(environment&, arguments&);
/// The filter of this name; nullptr for an unknown one.
[[nodiscard]] builtin find_filter(std::string_view name);
/// A test, which returns a bool.
[[nodiscard]] builtin find_test(std::string_view name);
/// A method of a string, list, dictionary or number. Its first argument is the object.
[[nodiscard]] builtin find_method(value const& self, std::string_view name);
/// A global function such as range.
[[nodiscard]] std::optional<value> find_global(environment& state, std::string_view name);

/// object.name of a template.
[[nodiscard]] value get_attribute(environment& state, value const& self, std::string const& name);
/// object[key] of a template.
[[nodiscard]] value get_item(environment& state, value const& self, value const& key);
/// object[begin:end:step].
[[nodiscard]] value get_slice(environment& state, value const& self, value const& begin,
                              value const& end, value const& step);
/// +, -, *, /, //, %, **.
[[nodiscard]] value calculate(environment& state, std::string_view operation, value const& left,
                              value const& right);
/// object(arguments) of a template.
[[nodiscard]] value call(value const& function, arguments& args);

/// A string, whose size counts as work.
[[nodiscard]] value new_text(environment& state, std::string utf8);
/// A sequence, whose items cost work.
[[nodiscard]] value new_sequence(environment& state, sequence_kind kind, std::vector<value> items);

/// `format % values` and format.format(values) of Python.
[[nodiscard]] std::string format_percent(environment& state, std::string_view format,
                                         value const& values);
/// str.format() of Python.
[[nodiscard]] std::string format_braces(environment& state, std::string_view format,
                                        arguments const& args);
/// json.dumps() of Python, with ensure_ascii=False unless another is given.
[[nodiscard]] value to_json(environment& state, arguments& args);

}  // namespace mpt::jinja
