// The version of the library, the one place where it is written: the CMake package, pkg-config and
// the recipes take it from here.
#pragma once

#include <compare>
#include <string>

#include <parallel/core/config.hpp>

namespace parallel {

/// A version by semantic versioning; versions are ordered.
struct version_number {
  int major_version = 0;
  int minor_version = 0;
  int patch_version = 0;

  friend constexpr auto operator<=>(version_number const&, version_number const&) = default;
};

/// The version of these headers. A program that needs a newer one can say so:
/// `static_assert(parallel::library_version >= parallel::version_number{0, 2, 0});`
inline constexpr version_number library_version{0, 1, 0};

/// A version as text: "0.1.0".
[[nodiscard]] inline std::string to_string(version_number const& version) {
  return std::to_string(version.major_version) + '.' + std::to_string(version.minor_version) + '.' +
         std::to_string(version.patch_version);
}

}  // namespace parallel
