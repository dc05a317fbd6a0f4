// The token that ends a text: who cannot do without it says why a tokenizer has none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Why `words.eos_id()` gives nothing, as the part of a sentence behind "it has no end-of-text
/// token".
[[nodiscard]] std::string why_without_end(tokenizer const& words);

/// The id of the token that ends a text. Throws where there is none; `need` says what cannot be
/// done without it ("responses would never end").
std::int32_t require_end(tokenizer const& words, std::string_view need);

}  // namespace mpt
