// machine_name: the host name of this machine.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

#include <parallel/core/config.hpp>

namespace parallel {

/// The host name; "" if the system does not tell.
[[nodiscard]] inline std::string machine_name() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return name.data();
}

}  // namespace parallel
