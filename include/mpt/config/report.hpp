// What reading a configuration found besides values: keys without effect, notes, and which keys are
// known at all. The program prints the first two once.
#pragma once

#include <string>
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
[[nodiscard]] std::string describe_ignored(config_report const& report);

}  // namespace mpt
