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

/// The stream's own: no sum of it depends on the number of threads, and (from five rows on) none on
/// how many rows a product has. Libraries do not promise either: by oneDNN 2.6 on a processor
/// without AVX-512, evaluations in other batches and training on other ranks differed in the last
/// bits.
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
