// The tests of communicators are strict: they detect every broken call of a communicator.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/communicator.hpp>
#include <parallel/conformance/mutation.hpp>

namespace mutation_test {

using namespace parallel;
using conformance::break_every_call;

auto thread_launcher(int ranks) {
  return [=](auto program) { threads::run(ranks, program); };
}

TEST_CASE("break_every_call: the communicator tests detect every broken call") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    auto const result = break_every_call(thread_launcher(ranks), [](auto& comm) {
      host::stream s;
      conformance::check_reductions<std::uint64_t>(comm, s, 5, reduction::sum);
      conformance::check_copies<std::uint64_t>(comm, s, 5);
    });
    // Reductions; all_gather and all_to_all; a broadcast from each rank; sends and receives.
    CHECK(result.calls == 3 + 3 + static_cast<std::uint64_t>(ranks) + 4);
    CHECK(result.mutants == 3 * result.calls);
    CHECK(result.unnoticed == std::vector<std::string>{});
  }
}

TEST_CASE("break_every_call: reports the calls whose results a program ignores") {
  auto const careless = [](auto& comm) {
    host::stream s;
    std::vector<std::uint64_t> x(3, 1), y(3, 1);
    comm.all_reduce(s, std::span(x), reduction::sum).wait();
    comm.all_reduce(s, std::span(y), reduction::sum).wait();
    require(y[1] == 2, "wrong");
  };
  auto const result = break_every_call(thread_launcher(2), careless);
  CHECK(result.calls == 2);
  CHECK(result.unnoticed ==
        std::vector<std::string>{"call 0 dropped", "call 0 doubled", "call 0 divided"});
}

TEST_CASE("break_every_call: throws if the program fails without a fault") {
  auto const wrong = [](auto& comm) { require(comm.size() == 3, "I want three"); };
  CHECK_THROWS_WITH_AS(static_cast<void>(break_every_call(thread_launcher(2), wrong)),
                       "I want three", error);
}

}  // namespace mutation_test
