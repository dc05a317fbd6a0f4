// The token that ends a text, and the error if a tokenizer has none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The reason why `tokenizer.eos_id()` is empty, to follow "it has no end-of-text token" in a
/// message.
[[nodiscard]] std::string why_without_end(tokenizer const& tokenizer);

/// The id of the token that ends a text. Throws if there is none; `need` names the consequence
/// ("responses would never end").
std::int32_t require_end(tokenizer const& tokenizer, std::string_view need);

}  // namespace mpt
