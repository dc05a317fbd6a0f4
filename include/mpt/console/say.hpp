// say: messages for the user on standard error.
#pragma once

#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace mpt::console {

/// Prints a formatted text to standard error and flushes it. Where standard error cannot be written
/// (it is closed, its disk is full) the text is lost and the program continues.
template <class... Arguments>
void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  static_cast<void>(
      std::fputs(fmt::format(text, std::forward<Arguments>(arguments)...).c_str(), stderr));
  static_cast<void>(std::fflush(stderr));
}

}  // namespace mpt::console
