// Which library multiplies matrices on the host: the one place where it is chosen.
#pragma once

#include <memory>
#include <string_view>

#include <parallel/device/host/matmul_engine.hpp>

namespace apps {

struct engine {
  std::unique_ptr<parallel::host::matmul_engine> products;  // null: plain loops
  std::string_view name;
};

/// oneDNN, OpenBLAS or BLIS, or plain loops: what CMake found, in this order.
[[nodiscard]] engine make_engine();

}  // namespace apps
