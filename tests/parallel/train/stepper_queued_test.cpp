// Exact layouts on a device whose streams are its own, with a communicator that enqueues on them.
#include <doctest/doctest.h>

#include <barrier>
#include <mutex>
#include <string>
#include <vector>

#include "support/queued_communicator.hpp"
#include "support/queued_device.hpp"
#include "support/ring_matrix.hpp"

namespace stepper_queued_test {

using test::layout;

/// All ranks on one device of so many threads, whose queues are drawn by `seed`.
test::outcome run_queued(layout const& how, int threads, std::uint64_t seed) {
  queued::device const device(threads, seed);
  return test::run_on(
      how, [&] { return device; },
      [](int ranks, auto const& program) { queued::run(ranks, program); });
}

TEST_CASE("every ZeRO stage and schedule, alone") {
  test::ring_references references;
  std::uint64_t seed = 0;
  auto const check = [&](layout const& how) {
    auto const words = test::text(how);
    CAPTURE(words);
    CHECK(test::difference(run_queued(how, 1, ++seed), references.outcome_of(how)) == "");
  };
  check({});
  check({.ranks = 3});
  for (auto const level : test::all_levels)
    if (level != test::zero::level::none) check({.ranks = 2, .level = level, .microbatch = 2});
  for (auto const* const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"}) {
    layout how{.microbatch = 2, .pipeline = 2};
    how.schedule.schedule = schedule;
    if (how.schedule.schedule == "interleaved") how.schedule.stages_per_rank = 2;
    how.model.blocks = 4;
    check(how);
  }
}

TEST_CASE("24 mixed layouts equal one rank of the host, in whatever order queues go on") {
  std::vector<layout> all;
  for (auto const& how : test::all_layouts(8, 1))
    if (test::refusal(how).empty()) all.push_back(how);
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& how : test::spread(all, 24)) {
    auto const got = run_queued(how, seed % 2 == 0 ? 1 : 3, seed);
    ++seed;
    CHECK_MESSAGE(test::difference(got, references.outcome_of(how)) == "", test::text(how));
  }
}

/// The steps of a layout, each of which is enqueued on every rank while the device stands still.
test::outcome run_standing_still(layout const& how, std::uint64_t seed) {
  queued::device const device(2, seed);
  test::outcome out;
  std::mutex lock;
  std::barrier rendezvous(how.shape().ranks());
  queued::run(how.shape().ranks(), [&](queued::communicator comm) {
    test::ring_rank<queued::device, queued::any_communicator> one(
        queued::any_communicator(std::move(comm)), how, device);
    for (int step = 0; step < how.num_steps; ++step) {
      one.prepare(step);
      rendezvous.arrive_and_wait();  // nobody waits for the device any more
      device.engine().stand_still();
      rendezvous.arrive_and_wait();
      one.begin(step);
      rendezvous.arrive_and_wait();
      device.engine().go_on();
      rendezvous.arrive_and_wait();
      auto const result = one.finish();
      std::scoped_lock const guard(lock);
      out.add(static_cast<std::size_t>(step), result);
    }
    one.stepper().gather_values(one.compute());
    std::scoped_lock const guard(lock);
    test::collect(one.stepper(), out);
  });
  CHECK(device.engine().host()->impatience == 0);
  return out;
}

TEST_CASE("the host waits for nothing between the beginning of a step and its end") {
  std::vector<layout> all;
  for (auto const& how : test::all_layouts(8, 1))
    if (test::refusal(how).empty()) all.push_back(how);
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto how : test::spread(all, 24)) {
    how.measure = false;  // tensors are measured one unit after the other
    auto const words = test::text(how);
    CAPTURE(words);
    CHECK(test::difference(run_standing_still(how, ++seed), references.outcome_of(how)) == "");
  }
}

}  // namespace stepper_queued_test
