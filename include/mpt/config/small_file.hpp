// Small text files that are read whole: configurations, from pipes too.
#pragma once

#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <system_error>

#include <mpt/config/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The whole of a small text file, or of what comes through a pipe. Throws when it is absent, a
/// folder, or over the limit.
[[nodiscard]] inline std::string read_small_file(std::filesystem::path const& path,
                                                 config_limits const& limits = {}) {
  std::error_code code;
  parallel::require(std::filesystem::exists(path, code), path.string(), ": no such file");
  parallel::require(!std::filesystem::is_directory(path, code), path.string(),
                    ": is a folder; expected a file");
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
