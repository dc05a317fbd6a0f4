// The tests on fake GPUs see what goes wrong with streams, events and access between devices: a
// machine that does wrong is told from one that does not.
#include <doctest/doctest.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "fake_cuda/ranks.hpp"
#include "support/device_exchanges.hpp"
#include "support/ring_items_cuda.hpp"
#include "support/ring_matrix.hpp"

namespace fake_faults_test {

using fake_cuda::fault;
using fake_cuda::machine_options;

/// Whether something other than the right result came out.
template <class Scenario>
bool goes_wrong(machine_options const& machine, Scenario const& scenario) {
  fake_cuda::restart(machine);
  try {
    return !scenario(machine.devices) || !fake_cuda::happened().failures.empty();
  } catch (std::exception const& e) {
    if (machine.fault == fault::none) MESSAGE(std::string(e.what()));
    return true;
  }
}

bool exchanges(int gpus) {
  fake_cuda::ranks_on(gpus)(2, [](auto& comm) {
    test::check_device_exchanges<std::uint64_t>(comm, fake_cuda::current_gpu(), 131);
  });
  return true;
}

/// Whether one rank's numbers come out.
bool trains(test::layout const& how, int gpus) {
  static test::ring_references references;
  auto const got = test::run_on(
      how, [&] { return fake_cuda::current_gpu({.graphs = true}); }, fake_cuda::ranks_on(gpus));
  return test::difference(got, references.outcome_of(how)).empty();
}

bool zero3(int gpus) {
  test::layout how;
  how.ranks = 2;
  how.level = parallel::zero::level::parameters;
  how.schedule.overlap_weight_gradients = true;
  return trains(how, gpus);
}

bool layouts(int gpus) {
  return zero3(gpus) &&
         trains(test::random_layout(
                    parallel::training_layout{}.with_degree<parallel::axis::tensor>(2), 1),
                gpus);
}

/// Whether a fault is seen with one of three seeds.
template <class Scenario>
bool is_seen(fault what, int gpus, Scenario const& scenario) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    if (goes_wrong({.devices = gpus, .seed = seed, .fault = what}, scenario)) return true;
  return false;
}

TEST_CASE("a machine without a fault is never accused") {
  CHECK(!is_seen(fault::none, 2, exchanges));
  CHECK(!is_seen(fault::none, 2, layouts));
  CHECK(!is_seen(fault::none, 1, layouts));
}

TEST_CASE("exchanges see lost waits, early events and missing access") {
  for (auto const what : {fault::no_host_waits, fault::early_records, fault::no_access}) {
    CAPTURE(static_cast<int>(what));
    CHECK(is_seen(what, 2, exchanges));
  }
}

TEST_CASE("layouts see them, and streams that do not wait or are crossed") {
  for (auto const what : {fault::no_stream_waits, fault::no_host_waits, fault::early_records,
                          fault::no_access, fault::crossed_streams}) {
    CAPTURE(static_cast<int>(what));
    CHECK(is_seen(what, 2, layouts));
  }
}

// Not every wait is needed: another one may come to the same. So this counts, and asks for a part.
TEST_CASE("[full] a single lost wait is seen, where it matters") {
  struct asked {
    fault what;
    std::uint64_t seeds;  // that are tried before it is taken for one that is not seen
    std::size_t one_of;   // of so many must be seen
  };
  for (auto const& how : {asked{fault::no_stream_waits, 4, 2}, asked{fault::no_host_waits, 8, 4}}) {
    CHECK(!goes_wrong({.devices = 2, .fault = how.what, .fault_at = SIZE_MAX}, zero3));
    std::size_t const occasions = fake_cuda::happened().occasions;
    std::size_t seen = 0, tried = 0;
    for (std::size_t at = 1; at <= occasions; at += 1 + occasions / 16, ++tried)
      for (std::uint64_t seed = 1; seed <= how.seeds; ++seed)
        if (goes_wrong({.devices = 2, .seed = seed, .fault = how.what, .fault_at = at}, zero3)) {
          ++seen;
          break;
        }
    MESSAGE("fault ", static_cast<int>(how.what), ": ", seen, " of ", tried, " tried, of ",
            occasions);
    CHECK(how.one_of * seen >= tried);
  }
}

}  // namespace fake_faults_test
