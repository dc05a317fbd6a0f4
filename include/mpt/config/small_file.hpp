// Small text files that are read whole: configurations, from pipes too.
#pragma once

#include <filesystem>
#include <ios>
#include <string>

#include <mpt/config/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The whole of a small text file, or of what comes through a pipe. Throws when it is absent, a
/// folder, or over the limit.
[[nodiscard]] std::string read_small_file(std::filesystem::path const& path,
                                          config_limits const& limits = {});

}  // namespace mpt
