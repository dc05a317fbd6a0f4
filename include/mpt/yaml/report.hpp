// config_report: the results of reading a configuration besides its values: keys without effect,
// notes, and the known keys. The program prints the first two once.
#pragma once

#include <string>
#include <vector>

namespace mpt {

/// The effect of a known key.
enum class key_role {
  effective,       ///< its value changes the run
  without_effect,  ///< accepted; listed once with the reason
  restricted       ///< known to LLM Foundry; values other than the supported ones are errors
};

/// A known key with its full dotted name. The texts are for a reader of documentation.
struct known_key {
  std::string name;
  key_role role = key_role::effective;
  std::string
      form{};  ///< the values that are read, as "an integer"; "" where there are several forms
  std::string fallback{};  ///< the value where the key is absent; "" where none is or others decide
  std::string remark{};    ///< why the key has no effect, or what is supported instead

  friend bool operator==(known_key const&, known_key const&) = default;
};

/// A written key without effect, and the reason.
struct ignored_key {
  std::string name;
  std::string reason;

  friend bool operator==(ignored_key const&, ignored_key const&) = default;
};

/// Keys and notes in the order of reading.
struct config_report {
  std::vector<ignored_key> ignored;
  std::vector<std::string> notes;
  std::vector<known_key> known;

  friend bool operator==(config_report const&, config_report const&) = default;
};

/// One line with the ignored keys grouped by reason: "accepted and without effect here: a, b
/// (reason); ...". Empty when no key was ignored.
[[nodiscard]] std::string describe_ignored(config_report const& report);

}  // namespace mpt
