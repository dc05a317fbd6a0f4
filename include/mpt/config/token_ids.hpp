// The ids of tokens that a model's JSON files name by their role, as transformers reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>

namespace mpt {

/// The ids under `key` ("eos_token_id"): a number, or a list of them; none where it is null or
/// missing. An id may be no token of the model: transformers takes such a file, and nothing comes
/// of that id. Throws for anything else; `source` names the file.
[[nodiscard]] std::vector<std::int64_t> read_token_ids(nlohmann::json const& json,
                                                       std::string const& key,
                                                       std::string const& source);

}  // namespace mpt
