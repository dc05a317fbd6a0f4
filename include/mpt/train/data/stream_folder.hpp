// The folder on this machine that holds the MDS set of a loader's stream.
#pragma once

#include <filesystem>

#include <mpt/config/data/loader.hpp>

namespace mpt {

/// The folder of the split of `stream`: below its `local` or, where `local` holds no set and
/// `remote` is a folder, below its `remote`, which is then read in place.
[[nodiscard]] std::filesystem::path stream_folder(stream_config const& stream);

}  // namespace mpt
