// The byte order mark that some programs, mostly on Windows, write in front of text: it says how
// the text is encoded and is not part of the text.
#pragma once

#include <cstddef>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt::data {

/// The size in bytes of the mark at the start of `text`: 3 for UTF-8, or 0 without a mark. Throws,
/// naming the text `name`, for the mark of an encoding other than UTF-8.
[[nodiscard]] std::size_t byte_order_mark(std::string_view text, std::string_view name);

}  // namespace mpt::data
