// A record beside a result of how it was made: parameters by name, as JSON, and the files that were
// read. A program that finds an earlier result compares its record with the current parameters.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data {

/// The identities of files in a record: name, size and a hash of both ends, in the order of
/// `files`.
[[nodiscard]] nlohmann::json file_identities(std::vector<std::filesystem::path> const& files);

/// The parameters in which `current` differs from `recorded`, one line each; empty if none does.
[[nodiscard]] std::string parameter_differences(nlohmann::json const& recorded,
                                                nlohmann::json const& current,
                                                std::filesystem::path const& folder);

}  // namespace mpt::data
