#include <parallel/ops/host/onednn.hpp>

#include <devices/engine.hpp>

apps::engine apps::library_product() {
  return {std::make_unique<parallel::host::onednn_engine>(), "oneDNN"};
}
