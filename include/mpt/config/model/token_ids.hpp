// read_token_ids: the token ids that a model's JSON files name by role, as transformers reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mpt {

/// The ids under `key` ("eos_token_id"), a number or a list of numbers; none where the key is null
/// or missing. An id may be outside the vocabulary: transformers accepts such a file and never
/// meets that id. Throws for any other value; `source` names the file.
[[nodiscard]] std::vector<std::int64_t> read_token_ids(nlohmann::json const& json,
                                                       std::string const& key,
                                                       std::string const& source);

}  // namespace mpt
