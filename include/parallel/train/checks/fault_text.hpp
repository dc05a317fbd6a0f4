// fault_text: describes faults that fingerprints have found to the person who must act on them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/train/checks/fingerprint.hpp>

namespace parallel::train {

/// A sentence for each group of ranks with the same kind of fault: "rank 3 (node7) computed wrong
/// gradients of block.1 once and the right ones again". `unit_name(number)` and `machine_of(rank)`
/// give strings.
template <class UnitName, class MachineOf>
[[nodiscard]] std::string to_string(std::span<fingerprint_fault const> faults,
                                    UnitName const& unit_name, MachineOf const& machine_of) {
  struct group {
    fingerprint_fault fault;
    std::vector<std::string> units;
  };
  std::vector<group> groups;
  for (auto const& found : faults) {
    auto const kind_of_fault = [](fingerprint_fault const& fault) {
      return std::tie(fault.subject.kind, fault.ranks, fault.persistent, fault.certain);
    };
    auto entry = std::ranges::find_if(groups, [&](group const& existing) {
      return kind_of_fault(existing.fault) == kind_of_fault(found);
    });
    if (entry == groups.end()) entry = groups.insert(entry, group{found, {}});
    std::string name = unit_name(found.subject.unit);
    if (std::ranges::find(entry->units, name) == entry->units.end())
      entry->units.push_back(std::move(name));
  }
  std::string text;
  for (auto const& [fault, units] : groups) {
    bool const is_single = fault.ranks.size() == 1;
    std::string ranks = is_single ? "rank " : "ranks ";
    for (std::size_t i = 0; i < fault.ranks.size(); ++i)
      ranks += concat(i == 0 ? "" : ", ", fault.ranks[i], " (", machine_of(fault.ranks[i]), ')');
    std::string subject = fault.subject.kind == fingerprint_kind::gradient ? "gradients of "
                          : fault.subject.kind == fingerprint_kind::values ? "values of "
                                                                           : "optimizer states of ";
    constexpr std::size_t max_units = 3;
    for (std::size_t i = 0; i < std::min(max_units, units.size()); ++i)
      subject += concat(i == 0 ? "" : ", ", units[i]);
    if (units.size() > max_units) subject += concat(" and ", units.size() - max_units, " more");
    bool const computed = fault.subject.kind == fingerprint_kind::gradient;
    text += text.empty() ? "" : "; ";
    if (!fault.persistent)
      text += computed
                  ? concat(ranks, " computed wrong ", subject, " once and the right ones again")
                  : concat(ranks, " read wrong ", subject, " once and the right ones again");
    else if (fault.certain)
      text += computed ? concat(ranks, is_single ? " computes" : " compute", " wrong ", subject,
                                " every time")
                       : concat(ranks, is_single ? " holds" : " hold", " other ", subject,
                                " than its copies do");
    else if (is_single)
      text += concat(ranks, " gets other ", subject, " each time");
    else
      text += computed ? concat(ranks, " compute different ", subject,
                                " from the same data every time, and one of them is wrong")
                       : concat(ranks, " hold different ", subject,
                                " that should be the same, and one of them is wrong");
  }
  return text;
}

}  // namespace parallel::train
