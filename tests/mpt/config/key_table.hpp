// key_table: a table of the keys that a configuration may have, which is a file (train_keys.txt
// says its form). Each row is a setting with another value than the default, and its expected
// effect.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <mpt/yaml/report.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>

namespace test {

using overrides = std::vector<std::string>;

enum class key_effect : std::uint8_t {
  changes,  ///< the configuration differs
  refused,  ///< reading fails with one message
  listed,   ///< the key has no effect and is reported with the reason
  noted     ///< the configuration is the same, and a note says so
};

/// FOLDER in a setting stands for a folder of small files.
struct key_row {
  key_effect expected;
  std::string setting;     ///< key=value
  std::string text = {};   ///< part of the message, the reason or the note
  overrides context = {};  ///< settings that are applied before

  [[nodiscard]] std::string key() const { return setting.substr(0, setting.find('=')); }
};

/// The rows of a file below tests/.
inline std::vector<key_row> read_key_table(std::string const& name) {
  std::map<std::string, key_effect> const effects{{"changes", key_effect::changes},
                                                  {"refused", key_effect::refused},
                                                  {"listed", key_effect::listed},
                                                  {"noted", key_effect::noted}};
  std::vector<key_row> rows;
  overrides context;
  std::ifstream file(checkout() / "tests" / name);
  for (std::string line; std::getline(file, line);) {
    auto const space = std::min(line.find(' '), line.size());
    auto const word = line.substr(0, space);
    if (word.empty()) context.clear();
    if (word.empty() || word.starts_with('#')) continue;
    auto const text = line.find(" | ");
    auto const setting = line.substr(space + 1, text - space - 1);
    if (word == "given")
      context.push_back(setting);
    else
      rows.push_back({effects.at(word), setting,
                      text == std::string::npos ? "" : line.substr(text + 3), context});
  }
  return rows;
}

/// The result of reading a configuration: the configuration, or the message of the error.
template <class Config>
struct key_reading {
  Config config;
  std::string problem;
};

/// The reason why the report lists `key`, or a section around it, as without effect; "" when it
/// does not.
inline std::string listed_reason(mpt::config_report const& report, std::string const& key) {
  auto entry = std::ranges::find(report.ignored, key, &mpt::ignored_key::name);
  if (entry == report.ignored.end())
    entry = std::ranges::find_if(report.ignored, [&](mpt::ignored_key const& section) {
      return key.starts_with(section.name + '.');
    });
  return entry == report.ignored.end() ? std::string() : entry->reason;
}

/// Whether the configuration keeps the value of a key that other settings disable.
enum class disabled_values : bool { dropped, stored };

/// The report in a configuration of a training or an evaluation.
template <class Config>
[[nodiscard]] auto& report_in(Config& config) {
  if constexpr (requires { config.output.report; })
    return config.output.report;
  else
    return config.report;
}

/// The reason why a row is wrong; "" when it is right. `baseline` was read with the row's context,
/// `changed` with its setting, too.
template <class Config>
std::string fault_of(key_row const& row, key_reading<Config> const& baseline,
                     key_reading<Config> const& changed,
                     disabled_values values = disabled_values::dropped) {
  if (row.expected == key_effect::refused)
    return !changed.problem.empty() && contains(changed.problem, row.text)
               ? ""
               : "is not refused so, but: " + changed.problem;
  if (!baseline.problem.empty()) return "its context is refused: " + baseline.problem;
  if (!changed.problem.empty()) return "is refused: " + changed.problem;
  auto const& report = report_in(changed.config);
  bool const is_same = [](Config first, Config second) {
    report_in(first) = report_in(second) = {};
    return first == second;
  }(baseline.config, changed.config);
  auto const reason = listed_reason(report, row.key());
  if (row.expected == key_effect::changes)
    return is_same          ? "changes nothing"
           : reason.empty() ? ""
                            : "is said to have no effect: " + reason;
  bool const is_stored = values == disabled_values::stored &&
                         std::ranges::any_of(report.known, [&](mpt::known_key const& key) {
                           return key.name == row.key() && key.role == mpt::key_role::effective;
                         });
  if (!is_same && !is_stored) return "changes the configuration";
  if (row.expected == key_effect::listed)
    return !reason.empty() && contains(reason, row.text) ? "" : "is not listed so, but: " + reason;
  bool const is_noted = std::ranges::any_of(
      report.notes, [&](std::string const& note) { return contains(note, row.text); });
  return is_noted ? "" : "is not noted";
}

/// Whether `key`, or a key below it, is one of the tried keys.
inline bool is_tried(std::set<std::string> const& tried, std::string const& key) {
  return std::ranges::any_of(
      tried, [&](std::string const& name) { return name == key || name.starts_with(key + '.'); });
}

}  // namespace test
