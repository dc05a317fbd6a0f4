// Communication overlaps with the backward pass, shown by the order of events and not by timing:
// one of the two is held until the other has made progress. Without overlap it would wait for ever.
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring/ring_model.hpp"
#include "support/trace.hpp"

namespace stepper_overlap_test {
namespace {

using namespace std::chrono_literals;
using parallel::index;
namespace zero = parallel::zero;

/// The ring model, which logs when its backward pass begins its last part and when it ends.
class traced_model : public test::ring_model {
 public:
  traced_model(test::trace& log, std::function<void()> hold)
      : test::ring_model(3, 4, 13), log_(log), hold_(std::move(hold)) {}

  template <class Stream>
  void enter_backward(test::context<Stream>& c, microbatch const& b,
                      test::matrix_view<test::ring const> dy) const {
    c.stream.enqueue([this] {
      log_.add("last part begins");
      hold_();
    });
    test::ring_model::enter_backward(c, b, dy);
    c.stream.enqueue([this] { log_.add("backward ends"); });
  }

 private:
  test::trace& log_;
  std::function<void()> hold_;
};

/// Makes one step on two ranks. Calls hold_backward(log) in the last part of the backward pass,
/// hold_collective(log, k) before the k-th collective, and check(log) when the step is done.
void run(zero::level level, std::size_t bucket_bytes,
         std::function<void(test::trace&)> const& hold_backward,
         std::function<void(test::trace&, int)> const& hold_collective,
         std::function<void(test::trace&)> const& check) {
  parallel::threads::run(2, [&](parallel::threads::communicator& inner) {
    test::trace log;
    test::delayed comm(std::move(inner), log, [&](int k) { hold_collective(log, k); });
    parallel::host::device device;
    traced_model model(log, [&] { hold_backward(log); });
    parallel::train::stepper step(model, device, comm, test::ring_momentum{},
                                  {.level = level, .bucket_bytes = bucket_bytes});
    step.initialise(1);
    parallel::arena memory(device.allocate<std::byte>(1 << 20));
    parallel::host::stream compute;
    parallel::host::stream exchanges;
    std::vector<std::int32_t> const ids(5, 1);
    test::ring_microbatch const batch{{ids.data(), {5}}, {ids.data(), {5}}, 1, 5, 5};
    index const first = comm.rank();
    (void)step.step(compute, exchanges, memory, {{&batch, 1}, {&first, 1}, {}, 1.0});
    check(log);
  });
}

void no_hold(test::trace&, int) {}

TEST_CASE("overlap: the first bucket is reduced before the backward pass ends") {
  for (auto const level : {zero::level::none, zero::level::optimizer})
    run(
        level, 1, [](test::trace& log) { CHECK(log.await("collective 0 ends", 60s)); }, no_hold,
        [](test::trace& log) { CHECK(log.in_order("collective 0 ends", "backward ends")); });
}

TEST_CASE("overlap: the backward pass continues while a bucket is reduced") {
  for (auto const level : {zero::level::none, zero::level::optimizer})
    run(
        level, 1, [](test::trace& log) { CHECK(log.await("collective 0 begins", 60s)); },
        [](test::trace& log, int k) {
          if (k == 0) CHECK(log.await("backward ends", 60s));
        },
        [](test::trace& log) {
          CHECK(log.in_order("collective 0 begins", "backward ends"));
          CHECK(log.in_order("backward ends", "collective 0 ends"));
        });
}

TEST_CASE("overlap: a bucket larger than the model is reduced after the backward pass") {
  run(
      zero::level::none, std::size_t{1} << 30,
      [](test::trace& log) { CHECK_FALSE(log.await("collective 0 begins", 50ms)); }, no_hold,
      [](test::trace& log) { CHECK(log.in_order("backward ends", "collective 0 begins")); });
}

}  // namespace
}  // namespace stepper_overlap_test
