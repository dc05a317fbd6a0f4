// say: messages for the user on standard error.
#pragma once

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <mpt/console/plain_text.hpp>

namespace mpt::console {

/// Prints a formatted text to standard error, as plain text, and flushes it. Where standard error
/// cannot be written (it is closed, its disk is full) the text is lost and the program continues.
template <class... Arguments>
void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  auto const message = plain_text(fmt::format(text, std::forward<Arguments>(arguments)...));
  static_cast<void>(std::fputs(message.c_str(), stderr));
  static_cast<void>(std::fflush(stderr));
}

}  // namespace mpt::console
