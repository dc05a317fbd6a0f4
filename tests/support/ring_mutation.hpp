// Mutants of a layout: one call of one rank, or of all, is dropped, doubled or divided. A sound
// test sees each of them in the outcome, or it is proved to change nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>

#include "support/ring_matrix.hpp"

namespace test {

using parallel::fault_kind;

struct mutant {
  static constexpr int all = -1;

  std::uint64_t call = 0;  // of the ranks that are broken
  fault_kind kind = fault_kind::drop;
  int rank = all;
};

/// By rank, the calls of a sound run in order: what `mutant::call` counts.
using calls_by_rank = std::vector<std::vector<parallel::signature>>;

inline calls_by_rank calls_of(layout const& how) {
  std::vector<std::shared_ptr<parallel::flight_recorder>> recorders;
  for (int r = 0; r < how.shape().ranks(); ++r)
    recorders.push_back(std::make_shared<parallel::flight_recorder>(1 << 16));
  static_cast<void>(run(how, [&](parallel::threads::communicator comm) {
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

inline outcome run_broken(layout const& how, mutant const& what) {
  return run(how, [&](parallel::threads::communicator comm) {
    bool const mine = what.rank == mutant::all || what.rank == comm.rank();
    return parallel::faulty(std::move(comm),
                            mine ? parallel::fault{what.call, what.kind} : parallel::fault{});
  });
}

/// Whether a broken call shows: by other results, or by a step that is refused.
[[nodiscard]] inline bool is_noticed(layout const& how, mutant const& what, outcome const& sound) {
  try {
    return run_broken(how, what) != sound;
  } catch (parallel::error const&) {
    return true;
  }
}

/// Every call in every way: on all ranks, and on each of them, or with many ranks on one of them
/// after another.
inline std::vector<mutant> all_mutants(calls_by_rank const& calls, int many = 4) {
  std::vector<mutant> out;
  auto const ranks = static_cast<int>(calls.size());
  auto const count = [&](int rank) { return calls[static_cast<std::size_t>(rank)].size(); };
  std::size_t most = 0;
  for (int r = 0; r < ranks; ++r) most = std::max(most, count(r));
  for (std::size_t k = 0; k < most; ++k)
    for (auto const kind : {fault_kind::drop, fault_kind::twice, fault_kind::divide}) {
      out.push_back({k, kind});
      int const one = static_cast<int>(out.size()) % ranks;
      for (int r = 0; r < ranks; ++r)
        if (k < count(r) && (ranks <= many || r == one)) out.push_back({k, kind, r});
    }
  return out;
}

inline std::string text(mutant const& what, calls_by_rank const& calls) {
  constexpr std::string_view kinds[] = {"dropped", "doubled", "divided"};
  std::string out =
      parallel::concat("call ", what.call, ' ', kinds[static_cast<int>(what.kind)], " on ");
  if (what.rank == mutant::all) return out + "all ranks";
  auto const& call = calls[static_cast<std::size_t>(what.rank)][what.call];
  return out + parallel::concat("rank ", what.rank, ": ", describe(call));
}

}  // namespace test
