#include <mpt/data/records.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

#include <mpt/data/hash.hpp>
#include <mpt/data/json.hpp>
#include <mpt/tokenizer/auto_tokenizer.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::data {

std::optional<std::string> tokenizer_of_set(std::filesystem::path const& folder) {
  namespace fs = std::filesystem;
  std::error_code unreadable;  // an unreadable folder has no record
  std::vector<fs::path> folders{folder};
  for (auto const& entry : fs::directory_iterator(folder, unreadable))
    if (entry.path().filename().native().starts_with("part-")) folders.push_back(entry.path());
  std::sort(folders.begin() + 1, folders.end());
  for (auto const& set_folder : folders) try {
      auto const record = set_folder / "prepare.json";
      if (!fs::exists(record, unreadable)) continue;
      auto const json = parse_json(parallel::read_text_file(record, 1U << 26), record.native());
      auto const parameters = json.is_object() ? json.find("parameters") : json.end();
      if (parameters == json.end() || !parameters->is_object()) continue;
      auto const found = parameters->find("tokenizer");
      if (found != parameters->end() && found->is_string()) return found->get<std::string>();
    } catch (
        parallel::error const&) {  // a file of another program, which does not name a tokenizer
      continue;
    }
  return std::nullopt;
}

std::string other_tokenizer_note(std::filesystem::path const& folder,
                                 std::filesystem::path const& tokenizer) {
  namespace fs = std::filesystem;
  std::error_code unreadable;  // the tokenizer is then not known
  auto const file =
      fs::is_directory(tokenizer, unreadable) ? tokenizer / "tokenizer.json" : tokenizer;
  if (tokenizer.empty() || !fs::is_regular_file(file, unreadable)) return {};
  auto const set_fingerprint = tokenizer_of_set(folder);
  if (!set_fingerprint) return {};
  auto const file_fingerprint =
      parallel::hexadecimal(read_auto_tokenizer(read_tokenizer_files(file)).fingerprint);
  if (file_fingerprint == *set_fingerprint) return {};
  return parallel::concat(folder.native(), " was made with another tokenizer than ", file.native(),
                          " (its prepare.json has ", set_fingerprint->substr(0, 16), ", that file ",
                          file_fingerprint,
                          "): unless the two files differ only in form, its ids stand for other "
                          "tokens; name the tokenizer that made the set, or make the set again");
}

namespace {

/// A line of an error message that shows two different values of the parameter `key`. Of two lists
/// of input files it shows their lengths, or the first files that differ.
[[nodiscard]] std::string difference_line(std::string const& key, nlohmann::json const& recorded,
                                          nlohmann::json const& current) {
  if (key.ends_with("inputs") && recorded.is_array() && current.is_array()) {
    if (recorded.size() != current.size())
      return parallel::concat("\n  ", key, ": were ", recorded.size(), " files, now ",
                              current.size());
    for (std::size_t i = 0; i < current.size(); ++i)
      if (recorded[i] != current[i])
        return parallel::concat("\n  ", key, ": file ", i + 1, " was ", python_json(recorded[i]),
                                ", now ", python_json(current[i]));
  }
  return "\n  " + key + ": was " + python_json(recorded) + ", now " + python_json(current);
}

}  // namespace

nlohmann::json file_identities(std::vector<std::filesystem::path> const& files) {
  auto out = nlohmann::json::array();
  for (auto const& path : files) {
    parallel::input_file const file(path);
    constexpr std::uint64_t end_bytes = 1U << 16;
    std::string ends(2 * end_bytes, '\0');
    auto const bytes = std::as_writable_bytes(std::span(ends));
    auto const head = file.read_some(0, bytes.first(end_bytes));
    auto const tail = file.read_some(std::max(file.size(), end_bytes) - end_bytes,
                                     bytes.subspan(head, end_bytes));
    ends.resize(head + tail);
    out.push_back(parallel::concat(path.filename().native(), ", ", file.size(), " bytes, ends ",
                                   hash_of("xxh3_64", ends)));
  }
  return out;
}

std::string parameter_differences(nlohmann::json const& recorded, nlohmann::json const& current,
                                  std::filesystem::path const& folder) {
  parallel::require(recorded.is_object(), folder.native(), ": the record of parameters is damaged");
  std::string out;
  for (auto const& [key, value] : current.items()) {
    auto const recorded_value = recorded.contains(key) ? recorded[key] : nlohmann::json(nullptr);
    if (recorded_value != value) out += difference_line(key, recorded_value, value);
  }
  return out;
}

}  // namespace mpt::data
