// Which tokenizer made a set of tokens: prepare leaves its fingerprint beside the set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data {

/// A tokenizer's fingerprint as records hold it: 16 hexadecimal digits.
[[nodiscard]] std::string fingerprint_text(std::uint64_t fingerprint);

/// The fingerprint text of the tokenizer that made the set in `folder`, which may be of several
/// parts; nothing where no record says it.
[[nodiscard]] std::optional<std::string> tokenizer_of_set(std::filesystem::path const& folder);

/// What to tell the user where the set in `folder` was made with another tokenizer than the one at
/// `tokenizer` (a tokenizer.json or its folder). Empty where it was not, or either is not known.
[[nodiscard]] std::string other_tokenizer_note(std::filesystem::path const& folder,
                                               std::filesystem::path const& tokenizer);

}  // namespace mpt::data
