#include <parallel/ops/host/cblas.hpp>

#include <devices/engine.hpp>

apps::engine apps::library_product() {
  return {std::make_unique<parallel::host::cblas_engine>(), "BLAS"};
}
