// What reading a configuration found besides values: keys without effect, notes, and which keys are
// known at all. The program prints the first two once.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpt {

/// What a known key does here.
enum class key_role {
  effective,       ///< its value changes what happens
  without_effect,  ///< accepted; listed once with the reason
  restricted       ///< known to LLM Foundry; values other than the supported ones are errors
};

/// A known key by its full dotted name.
struct known_key {
  std::string name;
  key_role role = key_role::effective;

  friend bool operator==(known_key const&, known_key const&) = default;
};

/// A key that was written and changes nothing here, and why.
struct ignored_key {
  std::string name;
  std::string reason;

  friend bool operator==(ignored_key const&, ignored_key const&) = default;
};

/// Gathered while reading, in reading order.
struct config_report {
  std::vector<ignored_key> ignored;
  std::vector<std::string> notes;
  std::vector<known_key> known;

  friend bool operator==(config_report const&, config_report const&) = default;
};

/// One line, keys with one reason together: "accepted and without effect here: a, b (reason); ...".
/// Empty when nothing was ignored.
[[nodiscard]] inline std::string describe_ignored(config_report const& report) {
  std::vector<std::pair<std::string, std::string>> groups;  // reason, names
  for (ignored_key const& key : report.ignored) {
    auto const same = std::find_if(groups.begin(), groups.end(),
                                   [&](auto const& group) { return group.first == key.reason; });
    if (same == groups.end())
      groups.emplace_back(key.reason, key.name);
    else
      same->second.append(", ").append(key.name);
  }
  std::string line;
  for (auto const& [reason, names] : groups) {
    line += line.empty() ? "accepted and without effect here: " : "; ";
    line.append(names).append(" (").append(reason).append(")");
  }
  return line;
}

}  // namespace mpt
