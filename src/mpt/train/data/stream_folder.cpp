#include <mpt/train/data/stream_folder.hpp>

namespace mpt {

std::filesystem::path stream_folder(stream_config const& stream) {
  namespace fs = std::filesystem;
  auto const split_in = [&](fs::path const& folder) {
    return stream.split.empty() ? folder : folder / stream.split;
  };
  auto local = split_in(stream.local);
  bool const is_local =
      stream.remote.empty() || is_remote(stream.remote) || fs::exists(local / "index.json");
  return is_local ? local : split_in(stream.remote);
}

}  // namespace mpt
