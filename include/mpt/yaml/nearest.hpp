// The nearest known name to a mistyped one.
//
// Optimal string alignment distance (a swap of neighbours counts once: Damerau 1964), O(a*b) time.
// A name that shares less than half of its letters with the written one is not offered.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mpt {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name nearest to `written`, or an empty string when none is near (or it is absurdly long).
[[nodiscard]] std::string nearest_name(std::string_view written,
                                       std::span<std::string const> names);

}  // namespace mpt
