#include <mpt/data/parameters_record.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <mpt/data/hash.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data {
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
