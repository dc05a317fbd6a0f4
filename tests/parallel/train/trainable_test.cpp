#include <parallel/train/trainable.hpp>

#include <doctest/doctest.h>

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>

#include "support/ring/ring_model.hpp"

namespace train = parallel::train;

// tests/messages has the compiler's messages for other models.
TEST_CASE(
    "trainable: a complete model is trainable on any device, a model that lacks types is not") {
  struct untyped {};
  CHECK(train::trainable<test::ring_model, parallel::host::stream>);
  CHECK(train::checked_model<test::ring_model, parallel::meta::stream>);
  CHECK(std::is_same_v<train::microbatch_of<test::ring_model>, test::ring_model::microbatch>);
  CHECK_FALSE(train::trainable<untyped, parallel::host::stream>);
  CHECK_FALSE(train::shows_units<untyped, float>);
}
