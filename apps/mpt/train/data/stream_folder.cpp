#include <mpt/train/data/stream_folder.hpp>

namespace mpt {

std::filesystem::path stream_folder(stream_config const& stream) {
  namespace fs = std::filesystem;
  auto const local = fs::path(stream.local) / stream.split;
  bool const is_local =
      stream.remote.empty() || is_remote(stream.remote) || fs::exists(local / "index.json");
  return is_local ? local : fs::path(stream.remote) / stream.split;
}

}  // namespace mpt
