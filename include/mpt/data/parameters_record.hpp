// What a result was made of, kept beside it: parameters by name, as JSON, and the files that were
// read. A program that finds a result there already compares it with what it is asked for now.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data {

/// Files as a record of parameters knows them: name, size and a hash of both ends, in order.
[[nodiscard]] nlohmann::json identities_of(std::vector<std::filesystem::path> const& files);

/// Every parameter in which `now` differs from `then`, a line each; empty: none.
[[nodiscard]] std::string differences_of(nlohmann::json const& then, nlohmann::json const& now,
                                         std::filesystem::path const& folder);

}  // namespace mpt::data
