#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/network/timed_collectives.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace timed_collectives_test {

using namespace parallel;

constexpr std::array kinds{operation_kind::all_reduce, operation_kind::reduce_scatter,
                           operation_kind::all_gather, operation_kind::all_to_all,
                           operation_kind::broadcast,  operation_kind::send};

/// The timing that rank 0 gets of one call. With `broken_kind`, rank 1 breaks its second call,
/// which is the first after the barrier.
template <class T>
std::optional<collective_timing> timed(int ranks, collective_call const& call,
                                       std::optional<fault_kind> broken_kind = {}) {
  std::optional<collective_timing> out;
  threads::run(ranks, [&](threads::communicator& world) {
    bool const is_broken = broken_kind && world.rank() == 1;
    faulty comm(std::move(world), {.call = is_broken ? 1 : fault::no_call,
                                   .kind = broken_kind.value_or(fault_kind::drop)});
    host::device device;
    timed_collectives<T, host::device, decltype(comm)> times(device, comm, call.bytes);
    auto const timing = times.time(call, 1e-6);
    if (comm.rank() == 0) out = timing;
  });
  return out;
}

TEST_CASE_TEMPLATE("timed collectives: every element of every call is right, in place and not", T,
                   float, bf16, std::int32_t, double) {
  for (int const ranks : {2, 3, 5})
    for (auto const kind : kinds)
      for (bool const in_place : {false, true})
        for (std::size_t const elements : {1, 14, 4001}) {
          collective_call const call{
              .kind = kind, .bytes = elements * sizeof(T), .in_place = in_place, .root = 1};
          auto const timing = timed<T>(ranks, call);
          bool const is_sharded = bus_factor(kind, 2) == 0.5;
          auto const count = is_sharded ? elements / static_cast<std::size_t>(ranks) : elements;
          INFO(to_string(kind), " on ", ranks, " ranks of ", elements, in_place ? " in place" : "");
          bool const exists =
              in_place ? kind != operation_kind::all_to_all && kind != operation_kind::send
                       : kind != operation_kind::all_reduce && kind != operation_kind::broadcast;
          REQUIRE(timing.has_value() == (exists && count > 0));
          if (!timing) continue;
          CHECK(timing->wrong == 0);
          CHECK(timing->count == count);
          CHECK(timing->seconds > 0);
        }
}

TEST_CASE("timed collectives: elements that one rank drops are counted on all ranks") {
  for (auto const kind : kinds) {
    bool const in_place = kind == operation_kind::all_reduce || kind == operation_kind::broadcast;
    collective_call const call{.kind = kind, .bytes = 12000, .in_place = in_place};
    INFO(to_string(kind));
    auto const timing = timed<float>(3, call, fault_kind::drop);
    REQUIRE(timing);
    CHECK(timing->wrong > 300);
  }
}

TEST_CASE("timed collectives: bus factors are those of nccl-tests") {
  CHECK(bus_factor(operation_kind::all_reduce, 4) == 1.5);
  CHECK(bus_factor(operation_kind::reduce_scatter, 4) == 0.75);
  CHECK(bus_factor(operation_kind::all_gather, 4) == 0.75);
  CHECK(bus_factor(operation_kind::all_to_all, 4) == 0.75);
  CHECK(bus_factor(operation_kind::broadcast, 4) == 1);
  CHECK(bus_factor(operation_kind::send, 4) == 1);
}

TEST_CASE("timed collectives: sums that the element type cannot hold are refused") {
  auto const time_bytes = [](threads::communicator& comm) {
    host::device device;
    timed_collectives<std::uint8_t, host::device, threads::communicator> times(device, comm, 64);
  };
  CHECK_THROWS_WITH_AS(threads::run(37, time_bytes), doctest::Contains("use a wider one"), error);
}

}  // namespace timed_collectives_test
