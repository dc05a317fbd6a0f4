// error: the exception that the library throws, and functions that build its message.
//
// `require` checks everything that depends on input (files, configuration, arguments, layouts) in
// every build. A message says what is wrong, where, what was expected and what to do. It is built
// only when the condition fails. Since it may quote untrusted files, it is made safe for a
// terminal: valid UTF-8 without control characters, and of limited length. Checks for bugs of the
// library itself use `assert`.
#pragma once

#include <charconv>
#include <concepts>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel {

/// A line of a source file, for errors that name the caller: the default argument `call_site caller
/// = call_site::current()` is the line of the call.
///
/// It does what std::source_location does. std::source_location needs a compiler built-in that
/// clang has only from version 15 on; the two built-ins used here are in every supported compiler.
class call_site {
 public:
  constexpr call_site() noexcept = default;

  [[nodiscard]] static constexpr call_site current(char const* file = __builtin_FILE(),
                                                   unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }

  /// The name as it was given to the compiler, possibly with folders; "" if default-constructed.
  [[nodiscard]] constexpr char const* file_name() const noexcept { return file_; }
  /// Counted from 1; 0 if default-constructed.
  [[nodiscard]] constexpr unsigned line() const noexcept { return line_; }

 private:
  constexpr call_site(char const* file, unsigned line) noexcept : file_(file), line_(line) {}

  char const* file_ = "";
  unsigned line_ = 0;
};

/// The library throws this exception or one derived from it (failures.hpp). Its message tells the
/// user what to do.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// One part of a message: text, a character, a number or a call site. With this type-erased part,
/// a call with other argument types instantiates no new code for the concatenation. It refers to
/// its text and does not copy it; the text must outlive the call.
class message_part {
 public:
  message_part(std::string_view text) : kind_(kind::text), text_(text) {}
  message_part(std::string const& text) : message_part(std::string_view(text)) {}
  message_part(char const* text) : message_part(std::string_view(text)) {}
  message_part(char character) : kind_(kind::character), character_(character) {}
  message_part(call_site const& site) : kind_(kind::site), site_(&site) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool> && !std::same_as<Number, char>) message_part(Number number)
      : message_part(stored(number)) {}
  template <std::same_as<bool> Flag>  // excludes types that convert to bool
  message_part(Flag flag) : message_part(std::string_view(flag ? "true" : "false")) {}
  message_part(long long number) : kind_(kind::integer), integer_(number) {}
  message_part(unsigned long long number) : kind_(kind::natural), natural_(number) {}
  message_part(float number) : kind_(kind::single), single_(number) {}
  message_part(double number) : kind_(kind::real), real_(number) {}

  void append_to(std::string& out) const {
    switch (kind_) {
      case kind::text: out += text_; break;
      case kind::character: out += character_; break;
      case kind::integer: append_number(out, integer_); break;
      case kind::natural: append_number(out, natural_); break;
      case kind::single: append_number(out, single_); break;
      case kind::real: append_number(out, real_); break;
      case kind::site: append_site(out); break;
    }
  }

 private:
  enum class kind : unsigned char { text, character, integer, natural, single, real, site };

  template <class Number>
  static auto stored(Number number) {
    if constexpr (std::signed_integral<Number>)
      return static_cast<long long>(number);
    else
      return static_cast<unsigned long long>(number);
  }

  template <class Number>
  static void append_number(std::string& out, Number number) {
    char digits[64];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  }

  void append_site(std::string& out) const {
    std::string_view file = site_->file_name();
    if (auto const slash = file.rfind('/'); slash != std::string_view::npos)
      file.remove_prefix(slash + 1);
    out.append(file).append(":");
    append_number(out, site_->line());
  }

  kind kind_;
  union {
    std::string_view text_;
    char character_;
    long long integer_;
    unsigned long long natural_;
    float single_;
    double real_;
    call_site const* site_;
  };
};

[[nodiscard]] inline std::string concatenated(std::initializer_list<message_part> parts) {
  std::string out;
  for (auto const& part : parts) part.append_to(out);
  return out;
}

}  // namespace detail

/// Concatenates strings, characters, numbers and source locations ("file.cpp:12").
template <class... Parts>
[[nodiscard]] std::string concat(Parts const&... parts) {
  return detail::concatenated({parts...});
}

/// The number of bytes of the UTF-8 character with which `text` begins; 0 if it begins with none.
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

/// The limit on the length of a message, in bytes. Only quoted content of files exceeds it.
inline constexpr std::size_t longest_message = 4000;

/// Returns `message` with '?' in place of control characters, except line ends, and of bytes that
/// are not UTF-8. A message that is too long is cut.
[[nodiscard]] inline std::string presentable(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    auto const bytes = utf8_bytes(message);
    if (out.size() + bytes > longest_message) return out + "...";
    auto const first = static_cast<unsigned char>(message.front());
    bool const control = (first < 0x20 && first != '\n') || first == 0x7f;
    if (bytes == 0 || control)
      out += '?';
    else
      out += message.substr(0, bytes);
    message.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

}  // namespace detail

namespace detail {

template <class Error>
[[noreturn]] void fail_with(std::initializer_list<message_part> parts) {
  throw Error(presentable(concatenated(parts)));
}

}  // namespace detail

/// Throws an Error with the concatenated parts.
template <class Error = error, class... Parts>
[[noreturn]] void fail(Parts const&... parts) {
  detail::fail_with<Error>({parts...});
}

/// The message of the exception that is being handled. Must be called in a catch block.
[[nodiscard]] inline std::string message_of_current_exception() {
  try {
    throw;
  } catch (std::exception const& thrown) {
    return thrown.what();
  } catch (...) {
    return "something that is not a std::exception";
  }
}

/// Throws `error` with the concatenated parts unless `condition` holds.
template <class... Parts>
constexpr void require(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    detail::fail_with<error>({parts...});
}

}  // namespace parallel
