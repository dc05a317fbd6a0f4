// The byte order mark that programs, of Windows mostly, write in front of text: it says how the
// text is encoded and is no part of it.
#pragma once

#include <cstddef>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt::data {

/// The bytes of the mark with which text begins: 3 of UTF-8's, or 0. `name`: the text's, for
/// errors. Error: the mark of an encoding that is not read.
[[nodiscard]] std::size_t byte_order_mark(std::string_view text, std::string_view name);

}  // namespace mpt::data
