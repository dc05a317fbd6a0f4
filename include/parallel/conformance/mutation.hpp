// mutation: breaks the calls of a program's communicator, one call at a time and in every way. The
// program must detect each fault; no test by this program can find a fault that it does not detect.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/core/error.hpp>

namespace parallel::conformance {

/// How many calls were broken, and which of the faults went unnoticed.
struct mutation_result {
  std::uint64_t calls = 0;    ///< calls of rank 0's communicator
  std::uint64_t mutants = 0;  ///< runs with one broken call
  std::vector<std::string> unnoticed =
      {};  ///< mutants that the program did not detect: "call 3 dropped"
};

/// Runs `program(comm)` on all ranks, first without a fault and then with call k of every rank
/// dropped, doubled or divided, for each k. The program reports a fault by throwing. `start(f)`
/// calls f(comm) on every rank of a new group and rethrows what a rank throws:
/// [](auto f) { threads::run(3, f); }. Throws if the program throws without a fault. Cost:
/// 1 + 3 calls runs of the program.
template <class Start, class Program>
[[nodiscard]] mutation_result break_every_call(Start start, Program program) {
  mutation_result result;
  auto const run = [&](fault injected) {
    start([&](auto& comm) {
      faulty broken(std::move(comm), injected);
      bool const is_first = broken.rank() == 0;
      program(broken);
      if (is_first && injected.call == fault::no_call) result.calls = broken.calls();
    });
  };
  run({});
  struct mutation {
    fault_kind kind;
    char const* text;
  };
  for (std::uint64_t k = 0; k < result.calls; ++k)
    for (auto const [kind, text] :
         {mutation{fault_kind::drop, "dropped"}, mutation{fault_kind::twice, "doubled"},
          mutation{fault_kind::divide, "divided"}}) {
      ++result.mutants;
      try {
        run({.call = k, .kind = kind});
        result.unnoticed.push_back(concat("call ", k, ' ', text));
      } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): detected
      }
    }
  return result;
}

}  // namespace parallel::conformance
