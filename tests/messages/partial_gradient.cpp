// reduced_gradient
#include <parallel/mesh/placement.hpp>
#include <parallel/ops/reference/stream.hpp>
#include <parallel/optim/decoupled_adamw.hpp>

using gradient = parallel::placed_gradient<float, parallel::partial<parallel::axis::data>>;

void run(parallel::reference::stream& s, parallel::update_ranges<float, gradient> const& ranges) {
  parallel::decoupled_adamw{}.update(s, ranges, {});
}
