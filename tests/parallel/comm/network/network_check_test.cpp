#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/network/network_check.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace network_check_test {

using namespace parallel;

/// The measurements of rank 0, where rank r is on the r-th machine.
network_measurements measured(std::vector<std::string> const& machines,
                              std::uint64_t broken_call = fault::no_call) {
  network_measurements out;
  threads::run(static_cast<int>(machines.size()), [&](threads::communicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    faulty comm(std::move(world), {.call = rank == 1 ? broken_call : fault::no_call});
    host::device device;
    auto const measurements =
        check_network(device, comm, machines[rank], static_cast<double>(rank + 1), {}, 3 << 12);
    if (rank == 0) out = measurements;
  });
  return out;
}

TEST_CASE("network check: rates within and between machines are measured apart") {
  auto const two_by_two = measured({"a", "b", "a", "b"});
  CHECK(two_by_two.machines == std::vector<std::string>{"a", "b", "a", "b"});
  CHECK(two_by_two.work == std::vector<double>{1, 2, 3, 4});
  CHECK(two_by_two.inside_machine > 0);
  CHECK(two_by_two.between_machines > 0);
  CHECK(two_by_two.arrival_rates.size() == 4);
  for (double const rate : two_by_two.arrival_rates) CHECK(rate > 0);
  CHECK(two_by_two.copy_rate > 0);
  CHECK(two_by_two.wrong_elements == 0);
  auto const one_machine = measured({"a", "a", "a"});
  CHECK(one_machine.inside_machine > 0);
  CHECK(one_machine.between_machines == 0);
  CHECK(one_machine.arrival_rates == std::vector<double>{0, 0, 0});
  auto const one_rank_each = measured({"a", "b"});
  CHECK(one_rank_each.inside_machine == 0);
  CHECK(one_rank_each.between_machines > 0);
  auto const uneven = measured({"a", "a", "b"});
  CHECK(uneven.inside_machine > 0);
  CHECK(uneven.between_machines > 0);
  CHECK(uneven.arrival_rates[0] > 0);
  CHECK(uneven.arrival_rates[1] == 0);
  CHECK(uneven.arrival_rates[2] > 0);
}

/// Stands in for a network of a given speed, and records the sizes of its calls.
struct slow_calls {
  double bytes_per_second;
  std::vector<std::size_t> sizes;
  double spent = 0;

  [[nodiscard]] std::optional<collective_timing> time(collective_call const& call, double seconds) {
    sizes.push_back(call.bytes);
    double const call_seconds = static_cast<double>(call.bytes) / bytes_per_second;
    spent += call_seconds * (1 + std::max(1.0, std::floor(seconds / call_seconds)));
    return collective_timing{call.bytes, call_seconds, 1};
  }
};

TEST_CASE("network check: a slow network is timed with small calls, a fast one with large ones") {
  constexpr std::size_t max_bytes = std::size_t{8} << 20;
  collective_call const call{.kind = operation_kind::all_gather, .bytes = max_bytes};
  slow_calls megabit{.bytes_per_second = 125e3, .sizes = {}};
  auto const slow = detail::time_growing(megabit, call, 0.1, 2);
  CHECK(slow.first == 16 << 10);
  CHECK(slow.second.wrong == 1);
  CHECK(megabit.spent < 0.5);
  slow_calls gigabyte{.bytes_per_second = 1e9, .sizes = {}};
  auto const fast = detail::time_growing(gigabyte, call, 0.1, 2);
  CHECK(fast.first == max_bytes);
  CHECK(fast.second.wrong == gigabyte.sizes.size());
  CHECK(gigabyte.spent < 0.3);
  slow_calls many_ranks{.bytes_per_second = 125e3, .sizes = {}};
  static_cast<void>(detail::time_growing(many_ranks, call, 0.1, 4096));
  CHECK(many_ranks.sizes.front() == 64 * 4096);
}

TEST_CASE("network check: wrong elements are counted") {
  std::uint64_t max_wrong = 0;
  for (std::uint64_t call = 0; call < 12; ++call) {
    try {
      max_wrong = std::max(max_wrong, measured({"a", "a", "a"}, call).wrong_elements);
    } catch (std::exception const&) {  // a broken machine name belongs to no machine
    }
  }
  CHECK(max_wrong > 1000);
}

}  // namespace network_check_test
