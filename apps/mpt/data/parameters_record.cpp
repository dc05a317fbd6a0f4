#include <mpt/data/parameters_record.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <mpt/data/hash.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data {
namespace {

/// Two values that differ, as a line of a message; of lists of files the first that differs.
[[nodiscard]] std::string line_of_difference(std::string const& key, nlohmann::json const& then,
                                             nlohmann::json const& now) {
  if (key.ends_with("inputs") && then.is_array() && now.is_array()) {
    if (then.size() != now.size())
      return parallel::concat("\n  ", key, ": were ", then.size(), " files, now ", now.size());
    for (std::size_t i = 0; i < now.size(); ++i)
      if (then[i] != now[i])
        return parallel::concat("\n  ", key, ": file ", i + 1, " was ", python_json(then[i]),
                                ", now ", python_json(now[i]));
  }
  return "\n  " + key + ": was " + python_json(then) + ", now " + python_json(now);
}

}  // namespace

nlohmann::json identities_of(std::vector<std::filesystem::path> const& files) {
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

std::string differences_of(nlohmann::json const& then, nlohmann::json const& now,
                           std::filesystem::path const& folder) {
  parallel::require(then.is_object(), folder.native(), ": the record of parameters is damaged");
  std::string out;
  for (auto const& [key, value] : now.items()) {
    auto const old = then.contains(key) ? then[key] : nlohmann::json(nullptr);
    if (old != value) out += line_of_difference(key, old, value);
  }
  return out;
}

}  // namespace mpt::data
