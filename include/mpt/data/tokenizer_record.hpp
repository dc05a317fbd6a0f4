// The record of the tokenizer that made a set of tokens: prepare writes its fingerprint into the
// set's folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace mpt::data {

/// The fingerprint, as 16 hexadecimal digits, of the tokenizer that made the set in `folder`, which
/// may consist of several parts; nullopt if no record has it.
[[nodiscard]] std::optional<std::string> tokenizer_of_set(std::filesystem::path const& folder);

/// A note for the user if the set in `folder` was made with another tokenizer than the one at
/// `tokenizer` (a tokenizer.json or its folder). Empty if they are equal or either is not known.
[[nodiscard]] std::string other_tokenizer_note(std::filesystem::path const& folder,
                                               std::filesystem::path const& tokenizer);

}  // namespace mpt::data
