// these are addends of that sum: reduce them first
#include <parallel/mesh/placement.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/optim/decoupled_adamw.hpp>

using gradient = parallel::placed_gradient<float, parallel::partial<parallel::axis::data>>;

void run(parallel::reference::stream& s, std::span<float> weights, gradient partial) {
  using ranges = parallel::update_ranges<float, gradient>;
  parallel::decoupled_adamw{}.update(s, ranges{weights, weights, {}, partial}, {});
}
