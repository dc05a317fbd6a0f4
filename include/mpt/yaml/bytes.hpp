// Sizes of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mpt {

/// The bytes of "80GB", "24 GiB" or "1.5e9": units are powers of 1000 or, with an i, of 1024, in
/// upper or lower case. None unless the text is a size above 0 and up to 2^60.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace mpt
