// Scalars of YAML 1.1 as LLM Foundry's loader (OmegaConf's) reads them: integers, numbers,
// booleans.
//
// `6.0e-4`, `1e5`, `.5` and `4_000_000` are numbers. Integers may be octal, hexadecimal, binary or
// sexagesimal: `030` is 24, `0x1F` 31, `0b101` 5, `1:30` 90; OmegaConf reads `08` and `0o30` as
// text, so they are no numbers. An integer may be written `1e3` or `256.0`; booleans are
// true/false/yes/no/on/off. The locale has no influence. Each function returns std::nullopt for
// text of another form, so that the caller can report the expected form and the location.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mpt {

/// A finite decimal number; leading zeros do not change its base, as in times
/// (`030ba`).
[[nodiscard]] std::optional<double> parse_decimal(std::string_view text);

/// A finite number as YAML 1.1 reads it.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// An integer, also when written as a number without a fraction (`1e3`).
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

/// true/false, yes/no, on/off in lower, upper or title case.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);

/// The bytes of "80GB", "24 GiB" or "1.5e9": units are powers of 1000 or, with an i, of 1024, in
/// upper or lower case. None unless the text is a size above 0 and up to 2^60.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace mpt
