// The cost of one call of a communicator: a single rank, one number, nothing to wait for. The
// difference between lines is the cost of a decorator. The lowest of several rounds counts, because
// other programs can only add time.
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

#include "parts/clock.hpp"

namespace {

/// The cost of one call in microseconds.
template <class C>
double seconds_per_call(C comm) {
  constexpr int calls = 20000;
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 10; ++round) {
    parallel::host::stream s;
    std::vector<float> x(1);
    std::vector<parallel::request> pending;
    pending.reserve(calls);
    double const begin = bench::read_clock(bench::clock_kind::wall);
    for (int i = 0; i < calls; ++i)
      pending.push_back(comm.all_reduce(s, std::span(x), parallel::reduction::sum));
    s.synchronize();
    best = std::min(best, (bench::read_clock(bench::clock_kind::wall) - begin) / calls);
  }
  return 1e6 * best;
}

}  // namespace

int main() {
  using namespace parallel;
  double const plain = seconds_per_call(single());
  auto const print = [&](std::string_view name, double cost) {
    fmt::print("{:10} {:5.2f} microseconds a call, {:5.2f} added\n", name, cost, cost - plain);
  };
  print("single", plain);
  print("erased", seconds_per_call(any_communicator(single())));
  print("recorded", seconds_per_call(recorded(single(), std::make_shared<flight_recorder>())));
  print("checked", seconds_per_call(checked(single())));
}
