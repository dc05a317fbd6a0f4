// Where the set of a loader's stream lies on this machine.
#pragma once

#include <filesystem>

#include <mpt/config/loader.hpp>

namespace mpt {

/// `remote` is read in place where `local` holds no set.
[[nodiscard]] inline std::filesystem::path stream_folder(stream_config const& stream) {
  namespace fs = std::filesystem;
  auto const local = fs::path(stream.local) / stream.split;
  bool const here = stream.remote.empty() || fs::exists(local / "index.json");
  return here ? local : fs::path(stream.remote) / stream.split;
}

}  // namespace mpt
