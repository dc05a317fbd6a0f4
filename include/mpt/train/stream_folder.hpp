// The folder that holds the set of a loader's stream on this machine.
#pragma once

#include <filesystem>

#include <mpt/config/loader.hpp>

namespace mpt {

/// The folder of a stream's split; `remote` is read in place where `local` holds no set.
[[nodiscard]] inline std::filesystem::path stream_folder(stream_config const& stream) {
  namespace fs = std::filesystem;
  auto const local = fs::path(stream.local) / stream.split;
  bool const is_local = stream.remote.empty() || fs::exists(local / "index.json");
  return is_local ? local : fs::path(stream.remote) / stream.split;
}

}  // namespace mpt
