// engine: the implementation of matrix products on the host. This is the only place that chooses
// it.
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

/// The host stream's product. Its sums do not depend on the number of threads nor, from five rows
/// on, on the number of rows of a product. Libraries promise neither: with oneDNN 2.6 on a
/// processor without AVX-512, evaluations with different batches and training on different ranks
/// differed in the last bits.
[[nodiscard]] inline engine own_product() {
  return {nullptr, parallel::host::has_matrix_unit() ? "matrix unit" : "SIMD"};
}

/// The product of the first library that CMake found of oneDNN, OpenBLAS and BLIS; else
/// own_product().
[[nodiscard]] engine library_product();

/// own_product() on a processor with a matrix unit, where it is faster than the libraries; else
/// library_product().
[[nodiscard]] inline engine make_engine() {
  return parallel::host::has_matrix_unit() ? own_product() : library_product();
}

}  // namespace apps
