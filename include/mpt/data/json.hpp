// JSON helpers of this folder: typed members of untrusted files, and printing as Python does.
//
// MDS files carry JSON written by Python's json.dumps(sort_keys=True): a space after ',' and ':',
// everything beyond ASCII escaped. `python_json` prints the same bytes, so that shards and indexes
// written here equal streaming's byte for byte. nlohmann::json keeps object keys sorted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/error.hpp>

namespace mpt::data {

using parallel::checkpoint::parse_json;

/// `value` as Python's json.dumps(value, sort_keys=True) prints it.
[[nodiscard]] std::string python_json(nlohmann::json const& value);

namespace detail {

/// Typed access to a member of an untrusted object: `location` names the file and the position in
/// it for errors.
[[nodiscard]] nlohmann::json const& member(nlohmann::json const& object, char const* key,
                                           std::string_view location);

[[nodiscard]] std::string string_member(nlohmann::json const& object, char const* key,
                                        std::string_view location);

[[nodiscard]] std::uint64_t count_member(nlohmann::json const& object, char const* key,
                                         std::string_view location);

}  // namespace detail

}  // namespace mpt::data
