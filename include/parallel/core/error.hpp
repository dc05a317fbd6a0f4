// Errors: what a user did wrong, and where.
//
// `require` guards everything that depends on input (files, configuration, arguments, layouts); it
// is always on. A message says what is wrong, where, what was expected and what to do. Library bugs
// use `assert`. The message is built only when the condition fails. Since it quotes files nobody
// vouches for, it is made fit for a terminal: UTF-8 without control characters, and not endless.
#pragma once

#include <charconv>
#include <concepts>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <parallel/core/call_site.hpp>

namespace parallel {

/// What the library throws, or its like in failures.hpp: a sentence a user can act on.
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

/// How many bytes the UTF-8 character has that `text` begins with; 0 when it begins with none.
[[nodiscard]] constexpr std::size_t utf8_bytes(std::string_view text) {
  if (text.empty()) return 0;
  auto const lead = static_cast<unsigned char>(text.front());
  std::size_t const bytes = lead < 0x80   ? 1
                            : lead < 0xc2 ? 0
                            : lead < 0xe0 ? 2
                            : lead < 0xf0 ? 3
                            : lead < 0xf5 ? 4
                                          : 0;
  if (bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U) return 0;
  return bytes;
}

namespace detail {

/// Longest message, in bytes; what goes beyond is some file's content.
inline constexpr std::size_t longest_message = 4000;

/// `message` with '?' for control characters other than line ends and for bytes that are not UTF-8,
/// cut where it is too long.
[[nodiscard]] inline std::string presentable(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    auto const bytes = utf8_bytes(message);
    if (out.size() + bytes > longest_message) return out + "...";
    char const first = message.front();
    bool const control = (first >= 0 && first < 0x20 && first != '\n') || first == 0x7f;
    if (bytes == 0 || control)
      out += '?';
    else
      out += message.substr(0, bytes);
    message.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

}  // namespace detail

/// Throws an Error with the concatenated parts.
template <class Error = error, class... Parts>
[[noreturn]] void fail(Parts const&... parts) {
  throw Error(detail::presentable(concat(parts...)));
}

/// What the exception says that is being handled; called in a catch block.
[[nodiscard]] inline std::string message_of_current_exception() {
  try {
    throw;
  } catch (std::exception const& thrown) {
    return thrown.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

/// Throws `error` with the concatenated parts unless `condition` holds.
template <class... Parts>
constexpr void require(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace parallel
