// writable
// The name of the concept (parallel/ops/detail/check.hpp) that a result of const elements does not meet.
#include <parallel/ops/host.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

void run(parallel::host::stream& s, std::span<float const> y, std::span<float const> x) {
  parallel::ops::add(s, y, x);
}
