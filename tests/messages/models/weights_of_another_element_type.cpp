// the model's elements are of another type; give weights<T> the model's element as T
#include <parallel/device/host/device.hpp>

#include "../model.hpp"

#include <parallel/train/weights.hpp>

void run(messages::model& model, parallel::host::device& device) {
  parallel::train::weights<double> const weights(model, device);
}
