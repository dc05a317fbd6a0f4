// Exact layouts on a device with streams of its own, and a communicator that enqueues on them.
#include <doctest/doctest.h>

#include <barrier>
#include <mutex>
#include <vector>

#include "support/devices/queued_communicator.hpp"
#include "support/devices/queued_device.hpp"
#include "support/ring/ring_matrix.hpp"

namespace stepper_queued_test {

using test::layout;

/// Runs all ranks on one device with `threads` threads, whose queues are drawn by `seed`.
test::outcome run_queued(layout const& run_layout, int threads, std::uint64_t seed) {
  queued::device const device(threads, seed);
  return test::run_on(
      run_layout, [&] { return device; },
      [](int ranks, auto const& program) { queued::run(ranks, program); });
}

TEST_CASE("queued stepper: every ZeRO stage and schedule equals one rank") {
  test::ring_references references;
  std::uint64_t seed = 0;
  auto const check = [&](layout const& run_layout) {
    auto const words = test::text(run_layout);
    CAPTURE(words);
    CHECK(test::difference(run_queued(run_layout, 1, ++seed), references.outcome_of(run_layout)) ==
          "");
  };
  check({});
  check({.ranks = 3});
  for (auto const level : test::all_levels)
    if (level != test::zero::level::none) check({.ranks = 2, .level = level, .microbatch = 2});
  for (auto const* const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"}) {
    layout run_layout{.microbatch = 2, .pipeline = 2};
    run_layout.schedule.schedule = schedule;
    if (run_layout.schedule.schedule == "interleaved") run_layout.schedule.stages_per_rank = 2;
    run_layout.model.blocks = 4;
    check(run_layout);
  }
}

TEST_CASE("queued stepper: 24 mixed layouts equal one rank on the host in every order of queues") {
  std::vector<layout> layouts;
  for (auto const& run_layout : test::all_layouts(8, 1))
    if (test::refusal(run_layout).empty()) layouts.push_back(run_layout);
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& run_layout : test::spread(layouts, 24)) {
    auto const got = run_queued(run_layout, seed % 2 == 0 ? 1 : 3, seed);
    ++seed;
    CHECK_MESSAGE(test::difference(got, references.outcome_of(run_layout)) == "",
                  test::text(run_layout));
  }
}

/// The outcome of a layout whose steps are each enqueued on every rank while the device is paused.
test::outcome run_standing_still(layout const& run_layout, std::uint64_t seed) {
  queued::device const device(2, seed);
  test::outcome out;
  std::mutex lock;
  std::barrier rendezvous(run_layout.shape().ranks());
  queued::run(run_layout.shape().ranks(), [&](queued::communicator comm) {
    test::ring_rank<queued::device, queued::any_communicator> one(
        queued::any_communicator(std::move(comm)), run_layout, device);
    for (int step = 0; step < run_layout.num_steps; ++step) {
      one.prepare(step);
      rendezvous.arrive_and_wait();  // no rank waits for the device any more
      device.engine().pause();
      rendezvous.arrive_and_wait();
      one.begin(step);
      rendezvous.arrive_and_wait();
      device.engine().resume();
      rendezvous.arrive_and_wait();
      auto const result = one.finish();
      std::scoped_lock const guard(lock);
      out.add(static_cast<std::size_t>(step), result);
    }
    one.stepper().gather_values(one.compute());
    std::scoped_lock const guard(lock);
    test::collect(one.stepper(), out);
  });
  CHECK(device.engine().host()->blocked_host_waits == 0);
  return out;
}

TEST_CASE(
    "queued stepper: the host waits for nothing between the beginning of a step and its end") {
  std::vector<layout> layouts;
  for (auto const& run_layout : test::all_layouts(8, 1))
    if (test::refusal(run_layout).empty()) layouts.push_back(run_layout);
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto run_layout : test::spread(layouts, 24)) {
    run_layout.measure = false;  // measuring tensors waits after each unit
    auto const words = test::text(run_layout);
    CAPTURE(words);
    CHECK(test::difference(run_standing_still(run_layout, ++seed),
                           references.outcome_of(run_layout)) == "");
  }
}

}  // namespace stepper_queued_test
