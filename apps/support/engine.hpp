// What multiplies matrices on the host: the one place where it is chosen.
#pragma once

#include <memory>
#include <string_view>

#include <parallel/device/host/matmul_engine.hpp>
#include <parallel/ops/host/matrix_unit.hpp>

namespace apps {

struct engine {
  std::unique_ptr<parallel::host::matmul_engine> products;  // null: the stream's own product
  std::string_view name;
};

/// The stream's own.
[[nodiscard]] inline engine own_product() {
  return {nullptr, parallel::host::has_matrix_unit() ? "matrix unit" : "SIMD"};
}

/// oneDNN's, OpenBLAS's or BLIS's: what CMake found, in this order; else our own.
[[nodiscard]] engine library_product();

/// Our own where the processor has a matrix unit, which it uses better than they do.
[[nodiscard]] inline engine make_engine() {
  return parallel::host::has_matrix_unit() ? own_product() : library_product();
}

}  // namespace apps
