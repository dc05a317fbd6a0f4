// Records, stored with a result, of how it was made: parameters by name, as JSON, and the files
// that were read; and the tokenizer that made a set of tokens. A program that finds an earlier
// result compares its record with the current parameters.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/file.hpp>

namespace mpt::data {

/// The identities of files in a record: name, size and a hash of both ends, in the order of
/// `files`.
[[nodiscard]] nlohmann::json file_identities(std::vector<std::filesystem::path> const& files);

/// The parameters in which `current` differs from `recorded`, one line each; empty if none does.
[[nodiscard]] std::string parameter_differences(nlohmann::json const& recorded,
                                                nlohmann::json const& current,
                                                std::filesystem::path const& folder);

/// The fingerprint, as 16 hexadecimal digits, of the tokenizer that made the set in `folder`, which
/// may consist of several parts; nullopt if no record has it.
[[nodiscard]] std::optional<std::string> tokenizer_of_set(std::filesystem::path const& folder);

/// A note for the user if the set in `folder` was made with another tokenizer than the one at
/// `tokenizer` (a tokenizer.json or its folder). Empty if they are equal or either is not known.
[[nodiscard]] std::string other_tokenizer_note(std::filesystem::path const& folder,
                                               std::filesystem::path const& tokenizer);

}  // namespace mpt::data
