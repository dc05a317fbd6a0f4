// the model has no visit_units(f) that calls f with each unit's name, layer, parts and uses
#include <parallel/device/host/device.hpp>
#include <parallel/train/weights.hpp>

struct without_units {
  using element = float;
};

void run(without_units& model, parallel::host::device& device) {
  parallel::train::weights<float> const held(model, device);
}
