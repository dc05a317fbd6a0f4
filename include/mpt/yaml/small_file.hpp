// read_small_file: reads a small text file whole, such as a configuration, also from a pipe.
#pragma once

#include <filesystem>
#include <ios>
#include <string>

#include <mpt/yaml/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The content of a small text file or pipe. Throws when the file is absent, is a folder, or is
/// longer than the limit.
[[nodiscard]] std::string read_small_file(std::filesystem::path const& path,
                                          config_limits const& limits = {});

}  // namespace mpt
