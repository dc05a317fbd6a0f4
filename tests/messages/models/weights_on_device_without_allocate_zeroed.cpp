// the device lacks what parallel::memory_device (parallel/device/concepts.hpp) asks for
#include <parallel/device/host/device.hpp>

#include "../model.hpp"

#include <parallel/train/weights.hpp>

struct device_without_allocate_zeroed : parallel::host::device {
  void allocate_zeroed() = delete;
};

void run(messages::model& model, device_without_allocate_zeroed& device) {
  parallel::train::weights<float> const weights(model, device);
}
