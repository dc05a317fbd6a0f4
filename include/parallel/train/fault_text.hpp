// fault_text: what was found by fingerprints, for whoever must act on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/train/fingerprint.hpp>

namespace parallel::train {

/// "rank 3 (node7) computed wrong gradients of block.1 once and the right ones again": a sentence
/// for each group of ranks that were wrong in one way. `unit_name(number)`, `machine_of(rank)`:
/// strings.
template <class UnitName, class MachineOf>
[[nodiscard]] std::string text_of(std::span<fingerprint_fault const> faults,
                                  UnitName const& unit_name, MachineOf const& machine_of) {
  struct group {
    fingerprint_fault like;
    std::vector<std::string> units;
  };
  std::vector<group> groups;
  for (auto const& fault : faults) {
    auto const alike = [](fingerprint_fault const& of) {
      return std::tie(of.of.kind, of.ranks, of.persistent, of.certain);
    };
    auto at = std::ranges::find_if(
        groups, [&](group const& one) { return alike(one.like) == alike(fault); });
    if (at == groups.end()) at = groups.insert(at, group{fault, {}});
    std::string name = unit_name(fault.of.unit);
    if (std::ranges::find(at->units, name) == at->units.end()) at->units.push_back(std::move(name));
  }
  std::string out;
  for (auto const& [like, units] : groups) {
    bool const one = like.ranks.size() == 1;
    std::string who = one ? "rank " : "ranks ";
    for (std::size_t i = 0; i < like.ranks.size(); ++i)
      who += concat(i == 0 ? "" : ", ", like.ranks[i], " (", machine_of(like.ranks[i]), ')');
    std::string what = like.of.kind == fingerprint_kind::gradient ? "gradients of "
                       : like.of.kind == fingerprint_kind::values ? "values of "
                                                                  : "optimizer states of ";
    constexpr std::size_t most = 3;
    for (std::size_t i = 0; i < std::min(most, units.size()); ++i)
      what += concat(i == 0 ? "" : ", ", units[i]);
    if (units.size() > most) what += concat(" and ", units.size() - most, " more");
    bool const computed = like.of.kind == fingerprint_kind::gradient;
    out += out.empty() ? "" : "; ";
    if (!like.persistent)
      out += computed ? concat(who, " computed wrong ", what, " once and the right ones again")
                      : concat(who, " read wrong ", what, " once and the right ones again");
    else if (like.certain)
      out += computed
                 ? concat(who, one ? " computes" : " compute", " wrong ", what, " every time")
                 : concat(who, one ? " holds" : " hold", " other ", what, " than its copies do");
    else if (one)
      out += concat(who, " gets other ", what, " each time");
    else
      out += computed ? concat(who, " compute different ", what,
                               " from the same data every time, and one of them is wrong")
                      : concat(who, " hold different ", what,
                               " that should be the same, and one of them is wrong");
  }
  return out;
}

}  // namespace parallel::train
