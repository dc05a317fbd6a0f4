// The device of a program that is one rank: all cores this process may use.
#pragma once

#include <algorithm>

#include <parallel/device/host/device.hpp>

#include "support/cores.hpp"
#include "support/engine.hpp"

namespace apps {

/// `products` must outlive the device.
[[nodiscard]] inline parallel::host::device whole_machine(engine const& products) {
  auto const cores = available_cores();
  return parallel::host::device({.threads = std::max<int>(1, static_cast<int>(cores.size())),
                                 .cores = cores,
                                 .engine = products.products.get()});
}

}  // namespace apps
