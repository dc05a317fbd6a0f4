#include <mpt/yaml/small_file.hpp>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <system_error>

#include <parallel/core/file.hpp>

namespace mpt {

std::string read_small_file(std::filesystem::path const& path, config_limits const& limits) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    parallel::require(errno != ENOENT && errno != ENOTDIR, path.string(), ": no such file");
    parallel::files::failure(path, "cannot open");
  }
  std::error_code code;
  parallel::require(!std::filesystem::is_directory(path, code), path.string(),
                    ": is a folder; expected a file");
  std::string text(limits.bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  parallel::require(!stream.bad(), path.string(), ": reading failed");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  parallel::require(text.size() <= limits.bytes, path.string(), ": more than ", limits.bytes,
                    " bytes, too long for a configuration");
  return text;
}

}  // namespace mpt
