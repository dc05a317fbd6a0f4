// documented_keys: prints the keys of configurations as JSON, as the readers of configurations
// report them. The readings are those of the tests of keys, which fail when a reader asks for a key
// that is not among them.
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "mpt/config/read_train_keys_test.cpp"
#include "mpt/eval/eval_config_keys_test.cpp"

namespace documented_keys {

/// What all readings say about one key.
struct key_entry {
  bool is_effective = false;
  bool is_restricted = false;
  std::set<std::string> forms, fallbacks, remarks;
  std::vector<std::string> examples;  ///< settings that change the run
};

using key_entries = std::map<std::string, key_entry>;

/// Adds what one reading has reported; texts that name the tests' own `folder` are left out.
template <class Canonical>
void learn(key_entries& entries, mpt::config_report const& report, Canonical const& canonical,
           std::string const& folder) {
  auto const add = [&](std::set<std::string>& texts, std::string const& text) {
    if (!text.empty() && text.find(folder) == std::string::npos) texts.insert(text);
  };
  for (mpt::known_key const& key : report.known) {
    auto const name = canonical(key.name);
    if (name.empty()) continue;
    auto& entry = entries[name];
    entry.is_effective = entry.is_effective || key.role == mpt::key_role::effective;
    entry.is_restricted = entry.is_restricted || key.role == mpt::key_role::restricted;
    add(entry.forms, key.form);
    add(entry.fallbacks, key.fallback);
    add(entry.remarks, key.remark);
  }
}

/// Adds a row of a test's table: its setting is an example of its key.
template <class Canonical>
void add_example(key_entries& entries, test::key_row const& row, Canonical const& canonical) {
  auto const found = entries.find(canonical(row.key()));
  if (found != entries.end() && row.expected == test::key_effect::changes)
    found->second.examples.push_back(row.setting);
}

[[nodiscard]] nlohmann::json to_json(key_entries const& entries) {
  auto out = nlohmann::json::array();
  for (auto const& [name, entry] : entries)
    out.push_back({{"name", name},
                   {"role", entry.is_effective    ? "effective"
                            : entry.is_restricted ? "restricted"
                                                  : "without_effect"},
                   {"forms", entry.forms},
                   {"fallbacks", entry.fallbacks},
                   {"remarks", entry.remarks},
                   {"examples", entry.examples}});
  return out;
}

[[nodiscard]] key_entries keys_of_training() {
  namespace tests = read_train_keys_test;
  tests::test_files const files;
  auto const folder = files.with_folder("FOLDER");
  key_entries entries;
  std::set<std::vector<std::string>> contexts;  // read already
  for (auto const& row : tests::all_rows()) {
    auto changes = row.context;
    if (contexts.insert(changes).second)
      learn(entries, tests::read(files, changes).config.output.report, tests::canonical, folder);
    changes.push_back(row.setting);
    learn(entries, tests::read(files, changes).config.output.report, tests::canonical, folder);
  }
  for (auto const& row : tests::all_rows()) add_example(entries, row, tests::canonical);
  return entries;
}

[[nodiscard]] key_entries keys_of_evaluation() {
  namespace tests = eval_config_keys_test;
  tests::small_files const files;
  auto const folder = files.folder.path().string();
  key_entries entries;
  for (auto const& row : tests::rows()) {
    learn(entries, files.read(row.context).config.report, tests::own_key, folder);
    auto changes = row.context;
    changes.push_back(row.setting);
    learn(entries, files.read(changes).config.report, tests::own_key, folder);
  }
  for (auto const& row : tests::rows()) add_example(entries, row, tests::own_key);
  return entries;
}

}  // namespace documented_keys

int main() {
  nlohmann::json const keys{{"training", to_json(documented_keys::keys_of_training())},
                            {"evaluation", to_json(documented_keys::keys_of_evaluation())}};
  std::cout << keys.dump(1) << '\n';
}
