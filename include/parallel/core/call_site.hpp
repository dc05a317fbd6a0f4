// call_site: the file and line of a call, for errors that name the caller.
//
// It does what std::source_location does. std::source_location needs a compiler built-in that clang
// has only from version 15 on; the two built-ins used here are in every supported compiler.
#pragma once

#include <parallel/core/config.hpp>

namespace parallel {

/// A line of a source file. The default argument `call_site caller = call_site::current()` is the
/// line of the call.
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

}  // namespace parallel
