// Free memory saves exchanges: of values first, and only where the choice is open and memory
// suffices.
#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

#include <parallel/train/setup/spare_exchanges.hpp>

namespace spare_exchanges_test {

namespace train = parallel::train;
using parallel::zero::level;
using choice = std::pair<bool, bool>;  // whether it reshards, whether it reduces every microbatch

/// The choice where whole values take 40 bytes, whole gradients 30, and 100 are available.
choice chosen(train::stepper_options options, std::size_t available,
              train::open_exchanges open = {}, std::size_t values = 40) {
  train::spare_exchanges(
      options, available,
      [&](train::stepper_options const& changed) {
        return std::size_t{100} + (changed.reshard_after_forward ? 0 : values) +
               (changed.reduce_every_microbatch ? 0 : 30);
      },
      open);
  return {options.reshard_after_forward, options.reduce_every_microbatch};
}

TEST_CASE(
    "spare exchanges: whole values are held first, then whole gradients, as far as memory "
    "suffices") {
  train::stepper_options const options{.level = level::parameters};
  CHECK(chosen(options, 100) == choice{true, true});
  CHECK(chosen(options, 129) == choice{true, true});
  CHECK(chosen(options, 130) == choice{true, false});
  CHECK(chosen(options, 140) == choice{false, true});
  CHECK(chosen(options, 169) == choice{false, true});
  CHECK(chosen(options, 170) == choice{false, false});
  CHECK(chosen(options, 99, {}, 0) ==
        choice{false, true});  // a choice that needs no more memory is always made
}

TEST_CASE(
    "spare exchanges: a ZeRO level saves only exchanges of what it shards, and set choices stay") {
  CHECK(chosen({.level = level::gradients}, 1000) == choice{true, false});
  CHECK(chosen({.level = level::optimizer}, 1000) == choice{true, true});
  CHECK(chosen({.level = level::none}, 1000) == choice{true, true});
  train::stepper_options options{.level = level::parameters};
  CHECK(chosen(options, 1000, {.reshard_after_forward = false}) == choice{true, false});
  CHECK(chosen(options, 1000, {.reduce_every_microbatch = false}) == choice{false, true});
  options.order = parallel::zero::reduction_order::canonical_tree;
  CHECK(chosen(options, 1000) == choice{false, true});
  options.reduce_every_microbatch = false;  // a choice that was set before
  CHECK(chosen(options, 0) == choice{true, false});
}

}  // namespace spare_exchanges_test
