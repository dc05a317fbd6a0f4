// Settings that the canonical order of reductions does not support are refused before a step.
#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/stepper.hpp>
#include <support/given_gradients.hpp>

namespace canonical_order_test {

namespace axis = parallel::axis;
namespace train = parallel::train;
namespace zero = parallel::zero;

TEST_CASE("canonical order: context ranks are refused, and slices of rows with adaptive clipping") {
  using enum train::clipping_kind;
  parallel::training_layout const whole = parallel::training_layout{}
                                              .with_degree<axis::pipeline>(2)
                                              .with_degree<axis::replicate>(3)
                                              .with_degree<axis::shard>(4);
  for (auto const clip : {none, norm, value, adaptive})
    CHECK(train::broken_by_canonical_order(whole, clip).empty());
  CHECK(train::broken_by_canonical_order(whole.with_degree<axis::tensor>(2), norm).empty());
  CHECK(train::broken_by_canonical_order(whole.with_degree<axis::tensor>(2), adaptive).size() == 1);
  auto const reasons = train::broken_by_canonical_order(
      whole.with_degree<axis::tensor>(2).with_degree<axis::context>(5), adaptive);
  REQUIRE(reasons.size() == 2);
  CHECK(
      reasons[0] ==
      "context 5: the canonical order of reductions sums whole microbatches, of which these ranks "
      "hold parts; set context to 1");
}

TEST_CASE("canonical order: a stepper with a context axis refuses it") {
  CHECK_THROWS_WITH(
      parallel::threads::run(
          2,
          [](parallel::threads::communicator& comm) {
            parallel::host::device device;
            train::process_groups groups(comm.split(0),
                                         parallel::training_layout{}.with_degree<axis::context>(2),
                                         zero::level::none);
            test::given_gradients<float> model({{"a", {4, 4}, {}, {}}});
            train::stepper const step(model, device, groups, test::plain_descent{},
                                      {.order = zero::reduction_order::canonical_tree});
          }),
      doctest::Contains("layout: context 2: the canonical order of reductions sums whole"));
}

}  // namespace canonical_order_test
