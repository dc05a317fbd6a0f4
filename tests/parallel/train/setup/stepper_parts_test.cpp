#include <parallel/train/setup/stepper_parts.hpp>

#include <doctest/doctest.h>

#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>

#include "support/ring_model.hpp"

namespace train = parallel::train;

// tests/messages has the compiler's messages for wrong arguments.
TEST_CASE("stepper: is constructible from a device, a communicator, a model and its optimizer") {
  struct nothing {};
  using device = parallel::host::device;
  using optimizer = parallel::decoupled_adamw;
  CHECK_FALSE(train::stepper_parts<nothing, device, parallel::single, optimizer>);
  CHECK_FALSE(train::stepper_parts<test::ring_model, nothing, parallel::single, optimizer>);
  CHECK_FALSE(train::stepper_parts<test::ring_model, device, nothing, optimizer>);
  CHECK_FALSE(train::stepper_parts<test::ring_model, device, parallel::single, nothing>);
}
