#include <mpt/yaml/report.hpp>

#include <algorithm>
#include <utility>

namespace mpt {

std::string describe_ignored(config_report const& report) {
  std::vector<std::pair<std::string, std::string>> groups;  // reason, names
  for (ignored_key const& key : report.ignored) {
    auto const group = std::find_if(groups.begin(), groups.end(), [&](auto const& candidate) {
      return candidate.first == key.reason;
    });
    if (group == groups.end())
      groups.emplace_back(key.reason, key.name);
    else
      group->second.append(", ").append(key.name);
  }
  std::string line;
  for (auto const& [reason, names] : groups) {
    line += line.empty() ? "accepted and without effect here: " : "; ";
    line.append(names).append(" (").append(reason).append(")");
  }
  return line;
}

}  // namespace mpt
