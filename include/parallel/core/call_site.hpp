// call_site: the file and line of a call, for errors that name who is to blame.
//
// std::source_location in all but name. That one needs a compiler built-in that clang has only from
// version 15 on, while these two are in every compiler we support.
#pragma once

#include <parallel/core/config.hpp>

namespace parallel {

/// A place in a source file. As a default argument, `call_site where = call_site::current()`, it is
/// the place of the call.
class call_site {
 public:
  constexpr call_site() noexcept = default;

  [[nodiscard]] static constexpr call_site current(char const* file = __builtin_FILE(),
                                                   unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }

  /// As the compiler was given it, maybe with folders; "" of a default-constructed one.
  [[nodiscard]] constexpr char const* file_name() const noexcept { return file_; }
  /// Counted from 1; 0 of a default-constructed one.
  [[nodiscard]] constexpr unsigned line() const noexcept { return line_; }

 private:
  constexpr call_site(char const* file, unsigned line) noexcept : file_(file), line_(line) {}

  char const* file_ = "";
  unsigned line_ = 0;
};

}  // namespace parallel
