// Errors: what a user did wrong, and where.
//
// `require` guards everything that depends on input (files, configuration, arguments, layouts); it
// is always on. A message says what is wrong, where, what was expected and what to do. Library bugs
// use `assert`. The message is built only when the condition fails.
#pragma once

#include <charconv>
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

#include <parallel/core/call_site.hpp>

namespace parallel {

/// The one exception type of the library: a sentence a user can act on.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, char part) { out += part; }

// constrained: a string literal must not become a bool
template <std::same_as<bool> Flag>
void append(std::string& out, Flag part) {
  out += part ? "true" : "false";
}

template <class Number>
requires((std::integral<Number> ||
          std::floating_point<Number>)&&!std::same_as<Number, bool>) void append(std::string& out,
                                                                                 Number part) {
  char digits[64];
  auto const end = std::to_chars(digits, digits + sizeof digits, part).ptr;
  out.append(digits, end);
}

inline void append(std::string& out, call_site const& where) {
  std::string_view file = where.file_name();
  if (auto const slash = file.rfind('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  out.append(file).append(":");
  append(out, where.line());
}

}  // namespace detail

/// Concatenates strings, characters, numbers and source locations ("file.cpp:12").
template <class... Parts>
[[nodiscard]] std::string concat(Parts const&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

/// Throws `error` with the concatenated parts.
template <class... Parts>
[[noreturn]] void fail(Parts const&... parts) {
  throw error(concat(parts...));
}

/// Throws `error` with the concatenated parts unless `condition` holds.
template <class... Parts>
constexpr void require(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace parallel
