// What a communicator's call costs by itself: one rank alone, one number, nothing to wait for. The
// difference between lines is what a decorator adds; the lowest of several rounds, since other
// programs only make it slower.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/single.hpp>

#include "clock.hpp"

namespace {

/// Microseconds of one call.
template <class C>
double cost_of(C comm) {
  constexpr int calls = 20000;
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 10; ++round) {
    parallel::host::stream s;
    std::vector<float> x(1);
    std::vector<parallel::request> pending;
    pending.reserve(calls);
    double const begin = bench::now(bench::clock_kind::wall);
    for (int i = 0; i < calls; ++i)
      pending.push_back(comm.all_reduce(s, std::span(x), parallel::reduction::sum));
    s.synchronize();
    best = std::min(best, (bench::now(bench::clock_kind::wall) - begin) / calls);
  }
  return 1e6 * best;
}

}  // namespace

int main() {
  using namespace parallel;
  double const plain = cost_of(single());
  auto const print = [&](std::string_view name, double cost) {
    fmt::print("{:10} {:5.2f} microseconds a call, {:5.2f} of its own\n", name, cost, cost - plain);
  };
  print("single", plain);
  print("erased", cost_of(any_communicator(single())));
  print("recorded", cost_of(recorded(single(), std::make_shared<flight_recorder>())));
  print("checked", cost_of(checked(single())));
}
