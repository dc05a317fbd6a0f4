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
#include <parallel/comm/network_check.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace network_check_test {

using namespace parallel;

/// What rank 0 is told, where rank r is on the r-th machine.
network_measurements measured(std::vector<std::string> const& machines,
                              std::uint64_t broken_call = fault::no_call) {
  network_measurements out;
  threads::run(static_cast<int>(machines.size()), [&](threads::communicator& whole) {
    auto const rank = static_cast<std::size_t>(whole.rank());
    faulty comm(std::move(whole), {.call = rank == 1 ? broken_call : fault::no_call});
    host::device device;
    auto const mine =
        check_network(device, comm, machines[rank], static_cast<double>(rank + 1), {}, 3 << 12);
    if (rank == 0) out = mine;
  });
  return out;
}

TEST_CASE("ranks are told apart by machine") {
  auto const two = measured({"a", "b", "a", "b"});
  CHECK(two.machines == std::vector<std::string>{"a", "b", "a", "b"});
  CHECK(two.work == std::vector<double>{1, 2, 3, 4});
  CHECK(two.inside_machine > 0);
  CHECK(two.between_machines > 0);
  CHECK(two.arrival_rates.size() == 4);
  for (double const rate : two.arrival_rates) CHECK(rate > 0);
  CHECK(two.copy_rate > 0);
  CHECK(two.wrong_elements == 0);
  auto const one = measured({"a", "a", "a"});
  CHECK(one.inside_machine > 0);
  CHECK(one.between_machines == 0);
  CHECK(one.arrival_rates == std::vector<double>{0, 0, 0});
  auto const apart = measured({"a", "b"});
  CHECK(apart.inside_machine == 0);
  CHECK(apart.between_machines > 0);
  auto const uneven = measured({"a", "a", "b"});
  CHECK(uneven.inside_machine > 0);
  CHECK(uneven.between_machines > 0);
  CHECK(uneven.arrival_rates[0] > 0);
  CHECK(uneven.arrival_rates[1] == 0);
  CHECK(uneven.arrival_rates[2] > 0);
}

/// Takes as long for each byte as a slow network does, and keeps what it was asked for.
struct slow_calls {
  double bytes_per_second;
  std::vector<std::size_t> sizes;
  double spent = 0;

  [[nodiscard]] std::optional<collective_timing> time(collective_call const& call, double seconds) {
    sizes.push_back(call.bytes);
    double const once = static_cast<double>(call.bytes) / bytes_per_second;
    spent += once * (1 + std::max(1.0, std::floor(seconds / once)));
    return collective_timing{call.bytes, once, 1};
  }
};

TEST_CASE("a slow network is timed with small calls, a fast one with large ones") {
  constexpr std::size_t most = std::size_t{8} << 20;
  collective_call const call{.kind = operation_kind::all_gather, .bytes = most};
  slow_calls megabit{.bytes_per_second = 125e3, .sizes = {}};
  auto const slow = detail::time_growing(megabit, call, 0.1, 2);
  CHECK(slow.first == 16 << 10);
  CHECK(slow.second.wrong == 1);
  CHECK(megabit.spent < 0.5);
  slow_calls gigabyte{.bytes_per_second = 1e9, .sizes = {}};
  auto const fast = detail::time_growing(gigabyte, call, 0.1, 2);
  CHECK(fast.first == most);
  CHECK(fast.second.wrong == gigabyte.sizes.size());
  CHECK(gigabyte.spent < 0.3);
  slow_calls many{.bytes_per_second = 125e3, .sizes = {}};
  static_cast<void>(detail::time_growing(many, call, 0.1, 4096));
  CHECK(many.sizes.front() == 64 * 4096);
}

TEST_CASE("what arrives wrong is counted") {
  std::uint64_t most = 0;
  for (std::uint64_t call = 0; call < 12; ++call) {
    try {
      most = std::max(most, measured({"a", "a", "a"}, call).wrong_elements);
    } catch (std::exception const&) {  // names that are broken are of no machine
    }
  }
  CHECK(most > 1000);
}

}  // namespace network_check_test
