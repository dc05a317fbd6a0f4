#include <parallel/ops/host/onednn.hpp>

#include "support/engine.hpp"

apps::engine apps::library_product() {
  return {std::make_unique<parallel::host::onednn_engine>(), "oneDNN"};
}
