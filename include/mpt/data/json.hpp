// JSON as this folder needs it: typed members of untrusted files and Python's way of printing.
//
// MDS files carry JSON written by Python's json.dumps(sort_keys=True): a space after ',' and ':',
// everything beyond ASCII escaped. `python_json` prints the same bytes, so that shards and indexes
// written here equal streaming's byte for byte. nlohmann::json keeps object keys sorted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include <parallel/checkpoint/json.hpp>
#include <parallel/core/error.hpp>

namespace mpt::data {

using parallel::checkpoint::parse_json;

namespace detail {

inline void append_python_json(std::string& out, nlohmann::json const& value) {
  char const* separator = "";
  if (value.is_object()) {
    out += '{';
    for (auto const& [key, member] : value.items()) {
      out.append(separator).append(nlohmann::json(key).dump(-1, ' ', true)).append(": ");
      append_python_json(out, member);
      separator = ", ";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (auto const& element : value) {
      out += separator;
      append_python_json(out, element);
      separator = ", ";
    }
    out += ']';
  } else {
    out += value.dump(-1, ' ', true);
  }
}

}  // namespace detail

/// `value` as Python's json.dumps(value, sort_keys=True) prints it.
[[nodiscard]] inline std::string python_json(nlohmann::json const& value) {
  std::string out;
  detail::append_python_json(out, value);
  return out;
}

namespace detail {

/// Typed access to a member of an untrusted object: `where` names the file and the place in it.
[[nodiscard]] inline nlohmann::json const& member(nlohmann::json const& object, char const* key,
                                                  std::string_view where) {
  parallel::require(object.is_object(), where, ": expected a JSON object");
  auto const found = object.find(key);
  parallel::require(found != object.end(), where, ": lacks \"", key, "\"");
  return *found;
}

[[nodiscard]] inline std::string string_member(nlohmann::json const& object, char const* key,
                                               std::string_view where) {
  auto const& value = member(object, key, where);
  parallel::require(value.is_string(), where, ": \"", key, "\" is not a string");
  return value.get<std::string>();
}

[[nodiscard]] inline std::uint64_t count_member(nlohmann::json const& object, char const* key,
                                                std::string_view where) {
  auto const& value = member(object, key, where);
  parallel::require(value.is_number_unsigned(), where, ": \"", key,
                    "\" is not a non-negative integer");
  return value.get<std::uint64_t>();
}

}  // namespace detail

}  // namespace mpt::data
