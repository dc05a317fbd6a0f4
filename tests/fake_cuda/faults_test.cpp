// The tests on fake GPUs notice faults of streams, events and access between devices: they
// distinguish a machine with a fault from one without.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "fake_cuda/ranks.hpp"
#include "support/devices/device_exchanges.hpp"
#include "support/ring/ring_items_cuda.hpp"
#include "support/ring/ring_matrix.hpp"

namespace fake_faults_test {

using fake_cuda::fault;
using fake_cuda::machine_options;

/// Whether a scenario ends with a wrong result, a failure or an exception.
template <class Scenario>
bool goes_wrong(machine_options const& machine, Scenario const& scenario) {
  fake_cuda::restart(machine);
  try {
    return !scenario(machine.devices) || !fake_cuda::history().failures.empty();
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

/// Whether the layout's numbers equal those of one rank.
bool trains(test::layout const& layout, int gpus) {
  static test::ring_references references;
  auto const got = test::run_on(
      layout, [&] { return fake_cuda::current_gpu({.graphs = true}); }, fake_cuda::ranks_on(gpus));
  return test::difference(got, references.outcome_of(layout)).empty();
}

bool zero3(int gpus) {
  test::layout layout;
  layout.ranks = 2;
  layout.level = parallel::zero::level::parameters;
  layout.schedule.overlap_weight_gradients = true;
  return trains(layout, gpus);
}

bool layouts(int gpus) {
  return zero3(gpus) &&
         trains(test::random_layout(
                    parallel::training_layout{}.with_degree<parallel::axis::tensor>(2), 1),
                gpus);
}

/// Whether the scenario notices a fault with one of three seeds.
template <class Scenario>
bool is_seen(fault kind, int gpus, Scenario const& scenario) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    if (goes_wrong({.devices = gpus, .seed = seed, .fault = kind}, scenario)) return true;
  return false;
}

TEST_CASE("fake GPU faults: a machine without a fault passes") {
  CHECK(!is_seen(fault::none, 2, exchanges));
  CHECK(!is_seen(fault::none, 2, layouts));
  CHECK(!is_seen(fault::none, 1, layouts));
}

TEST_CASE("fake GPU faults: exchanges notice lost waits, early events and missing access") {
  for (auto const kind : {fault::no_host_waits, fault::early_records, fault::no_access}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(is_seen(kind, 2, exchanges));
  }
}

TEST_CASE("fake GPU faults: layouts notice faults, and streams that do not wait or are crossed") {
  for (auto const kind : {fault::no_stream_waits, fault::no_host_waits, fault::early_records,
                          fault::no_access, fault::crossed_streams}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(is_seen(kind, 2, layouts));
  }
}

// Not every wait is needed, since another one may have the same effect. So the test counts the lost
// waits that are noticed and requires a share of them.
TEST_CASE("[full] fake GPU faults: a single lost wait is noticed often enough") {
  struct expectation {
    fault kind;
    std::uint64_t seeds;  // tried before the lost wait counts as unnoticed
    std::size_t share;    // one in so many lost waits must be noticed
  };
  for (auto const& expected :
       {expectation{fault::no_stream_waits, 4, 2}, expectation{fault::no_host_waits, 8, 4}}) {
    CHECK(!goes_wrong({.devices = 2, .fault = expected.kind, .fault_occasion = SIZE_MAX}, zero3));
    std::size_t const occasions = fake_cuda::history().occasions;
    std::size_t seen = 0, tried = 0;
    for (std::size_t occasion = 1; occasion <= occasions; occasion += 1 + occasions / 16, ++tried)
      for (std::uint64_t seed = 1; seed <= expected.seeds; ++seed)
        if (goes_wrong(
                {.devices = 2, .seed = seed, .fault = expected.kind, .fault_occasion = occasion},
                zero3)) {
          ++seen;
          break;
        }
    MESSAGE("fault ", static_cast<int>(expected.kind), ": ", seen, " of ", tried, " tried, of ",
            occasions);
    CHECK(expected.share * seen >= tried);
  }
}

}  // namespace fake_faults_test
