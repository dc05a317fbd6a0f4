// Mutants of a layout: one communicator call of one rank, or of all ranks, is dropped, doubled or
// divided. A test is sound if each mutant changes the outcome or provably changes nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>

#include "support/ring/ring_matrix.hpp"

namespace test {

using parallel::fault_kind;

struct mutant {
  static constexpr int all_ranks = -1;

  std::uint64_t call = 0;  // index among the calls of a broken rank
  fault_kind kind = fault_kind::drop;
  int rank = all_ranks;
};

/// By rank, the calls of a correct run in order, which `mutant::call` indexes.
using calls_by_rank = std::vector<std::vector<parallel::signature>>;

inline calls_by_rank calls_of(layout const& training_layout) {
  std::vector<std::shared_ptr<parallel::flight_recorder>> recorders;
  for (int r = 0; r < training_layout.shape().ranks(); ++r)
    recorders.push_back(std::make_shared<parallel::flight_recorder>(1 << 16));
  static_cast<void>(run(training_layout, [&](parallel::threads::communicator comm) {
    auto const& recorder = recorders[static_cast<std::size_t>(comm.rank())];
    return parallel::recorded(std::move(comm), recorder);
  }));
  calls_by_rank out;
  for (auto const& recorder : recorders) {
    out.emplace_back();
    for (auto const& call : recorder->calls())
      if (call.call_signature.kind != parallel::operation_kind::split &&
          call.call_signature.kind != parallel::operation_kind::agreement)  // neither is submitted
        out.back().push_back(call.call_signature);
  }
  return out;
}

inline outcome run_broken(layout const& training_layout, mutant const& mutation) {
  return run(training_layout, [&](parallel::threads::communicator comm) {
    bool const is_broken = mutation.rank == mutant::all_ranks || mutation.rank == comm.rank();
    return parallel::faulty(std::move(comm), is_broken
                                                 ? parallel::fault{mutation.call, mutation.kind}
                                                 : parallel::fault{});
  });
}

/// Whether a broken call is detected, by different results or by an error.
[[nodiscard]] inline bool is_noticed(layout const& training_layout, mutant const& mutation,
                                     outcome const& sound) {
  try {
    return run_broken(training_layout, mutation) != sound;
  } catch (parallel::error const&) {
    return true;
  }
}

/// Every call broken in every way: on all ranks, and on each rank alone. With more than `max_ranks`
/// ranks, each mutation is made on one rank instead, in turn.
inline std::vector<mutant> all_mutants(calls_by_rank const& calls, int max_ranks = 4) {
  std::vector<mutant> out;
  auto const ranks = static_cast<int>(calls.size());
  auto const count = [&](int rank) { return calls[static_cast<std::size_t>(rank)].size(); };
  std::size_t max_calls = 0;
  for (int r = 0; r < ranks; ++r) max_calls = std::max(max_calls, count(r));
  for (std::size_t k = 0; k < max_calls; ++k)
    for (auto const kind : {fault_kind::drop, fault_kind::twice, fault_kind::divide}) {
      out.push_back({k, kind});
      int const chosen_rank = static_cast<int>(out.size()) % ranks;
      for (int r = 0; r < ranks; ++r)
        if (k < count(r) && (ranks <= max_ranks || r == chosen_rank)) out.push_back({k, kind, r});
    }
  return out;
}

inline std::string text(mutant const& mutation, calls_by_rank const& calls) {
  constexpr std::string_view kinds[] = {"dropped", "doubled", "divided"};
  std::string out =
      parallel::concat("call ", mutation.call, ' ', kinds[static_cast<int>(mutation.kind)], " on ");
  if (mutation.rank == mutant::all_ranks) return out + "all ranks";
  auto const& call = calls[static_cast<std::size_t>(mutation.rank)][mutation.call];
  return out + parallel::concat("rank ", mutation.rank, ": ", describe(call));
}

}  // namespace test
