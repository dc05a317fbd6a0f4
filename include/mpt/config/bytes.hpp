// Sizes of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mpt {

/// "80GB", "24 GiB", "1.5e9": bytes, in powers of 1000 or, with an i, of 1024, in any case; none
/// where the text is no such size above 0 and up to 2^60.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace mpt
