// JSON of untrusted files, read with checks, and printed as Python prints it.
//
// MDS files carry JSON written by Python's json.dumps(sort_keys=True): a space after ',' and ':',
// everything beyond ASCII escaped. `python_json` prints the same bytes, so that shards and indexes
// written here equal streaming's byte for byte. nlohmann::json keeps object keys sorted.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/error.hpp>

namespace mpt::data {

using parallel::checkpoint::count_member;
using parallel::checkpoint::member;
using parallel::checkpoint::parse_json;
using parallel::checkpoint::parse_json_in_parts;
using parallel::checkpoint::string_member;

/// `value` as Python's json.dumps(value, sort_keys=True) prints it.
[[nodiscard]] std::string python_json(nlohmann::json const& value);

}  // namespace mpt::data
