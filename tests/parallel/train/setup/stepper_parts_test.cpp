#include <parallel/train/setup/stepper_parts.hpp>

#include <doctest/doctest.h>

#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>

#include "support/ring/ring_model.hpp"

namespace train = parallel::train;

// tests/messages has the compiler's messages for wrong arguments.
TEST_CASE(
    "stepper_parts: a wrong model, device, communicator or optimizer does not satisfy the "
    "concept") {
  struct unrelated {};
  using device = parallel::host::device;
  using optimizer = parallel::decoupled_adamw;
  CHECK_FALSE(train::stepper_parts<unrelated, device, parallel::single, optimizer>);
  CHECK_FALSE(train::stepper_parts<test::ring_model, unrelated, parallel::single, optimizer>);
  CHECK_FALSE(train::stepper_parts<test::ring_model, device, unrelated, optimizer>);
  CHECK_FALSE(train::stepper_parts<test::ring_model, device, parallel::single, unrelated>);
}
