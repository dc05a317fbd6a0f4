// machine_name: what this machine calls itself.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

#include <parallel/core/config.hpp>

namespace parallel {

/// "" when it does not say.
[[nodiscard]] inline std::string machine_name() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return name.data();
}

}  // namespace parallel
