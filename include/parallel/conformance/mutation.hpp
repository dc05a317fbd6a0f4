// Mutation: every call of a program's communicator is broken in every way, one at a time, and the
// program must notice. What it does not notice is what no test of it would find.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/core/error.hpp>

namespace parallel::conformance {

struct mutation_result {
  std::uint64_t calls = 0;               // of rank 0's communicator
  std::uint64_t mutants = 0;             // runs with one broken call
  std::vector<std::string> missed = {};  // what went unnoticed: "call 3 dropped"
};

/// Runs `program(comm)` on all ranks, once sound and then with each call of every rank dropped,
/// doubled and divided in turn; it notices by throwing. `start(f)` calls f(comm) on every rank of a
/// fresh group and passes on what a rank throws: [](auto f) { threads::run(3, f); }. A program that
/// throws when nothing is broken is refused. Cost: 1 + 3 calls runs.
template <class Start, class Program>
[[nodiscard]] mutation_result break_every_call(Start start, Program program) {
  mutation_result out;
  auto const run = [&](fault injected) {
    start([&](auto& comm) {
      faulty broken(std::move(comm), injected);
      bool const first = broken.rank() == 0;
      program(broken);
      if (first && injected.call == fault::no_call) out.calls = broken.calls();
    });
  };
  run({});
  struct way {
    fault_kind kind;
    char const* text;
  };
  for (std::uint64_t k = 0; k < out.calls; ++k)
    for (auto const [kind, text] :
         {way{fault_kind::drop, "dropped"}, way{fault_kind::twice, "doubled"},
          way{fault_kind::divide, "divided"}}) {
      ++out.mutants;
      try {
        run({.call = k, .kind = kind});
        out.missed.push_back(concat("call ", k, ' ', text));
      } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): noticed
      }
    }
  return out;
}

}  // namespace parallel::conformance
