#include <doctest/doctest.h>

#include <parallel/mesh/placement.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/optim/decoupled_adamw.hpp>

namespace placement_test {
namespace {

using parallel::partial;
using parallel::placed_gradient;
using parallel::reduced;
using stream = parallel::reference::stream;
using unsummed = placed_gradient<float, partial<parallel::axis::data>>;
using summed = placed_gradient<float, reduced<parallel::axis::data>>;

/// Whether `Optimizer::update` can be called at all with gradients of this type.
template <class Optimizer, class Gradient>
concept accepts = requires(Optimizer const& o, stream& s,
                           parallel::update_ranges<float, Gradient> const& ranges,
                           parallel::step_info<float> const& info) {
  o.update(s, ranges, info);
};

TEST_CASE(
    "placement: an optimizer accepts reduced gradients and does not compile with partial ones") {
  static_assert(parallel::reduced_gradient<summed>);
  static_assert(!parallel::reduced_gradient<unsummed>);
  static_assert(!parallel::reduced_gradient<std::span<float>>);  // nor one of unknown placement
  static_assert(parallel::optimizer<parallel::decoupled_adamw, stream, float, summed>);
  static_assert(!parallel::optimizer<parallel::decoupled_adamw, stream, float, unsummed>);
  static_assert(accepts<parallel::decoupled_adamw, summed>);
  static_assert(!accepts<parallel::decoupled_adamw, unsummed>);
}

TEST_CASE("placement: partial and reduced gradients do not convert into each other") {
  static_assert(!std::is_convertible_v<unsummed, summed>);
  static_assert(!std::is_convertible_v<summed, unsummed>);
}

}  // namespace
}  // namespace placement_test
