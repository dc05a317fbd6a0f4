// Small text files that are read whole: configurations.
#pragma once

#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <system_error>

#include <mpt/config/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The whole of a small text file. Throws when it is absent, no regular file, or over the limit.
[[nodiscard]] inline std::string read_small_file(std::filesystem::path const& path,
                                                 config_limits const& limits = {}) {
  std::error_code code;
  parallel::require(std::filesystem::exists(path, code), path.string(), ": no such file");
  parallel::require(std::filesystem::is_regular_file(path, code), path.string(),
                    ": not a regular file");
  std::ifstream stream(path, std::ios::binary);
  parallel::require(stream.good(), path.string(), ": cannot be opened for reading");
  std::string text(limits.bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  parallel::require(!stream.bad(), path.string(), ": reading failed");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  parallel::require(text.size() <= limits.bytes, path.string(), ": more than ", limits.bytes,
                    " bytes, too long for a configuration");
  return text;
}

}  // namespace mpt
