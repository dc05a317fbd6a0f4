// The folder that holds the set of a loader's stream on this machine.
#pragma once

#include <filesystem>

#include <mpt/config/loader.hpp>

namespace mpt {

/// The folder of a stream's split; `remote` is read in place where `local` holds no set.
[[nodiscard]] std::filesystem::path stream_folder(stream_config const& stream);

}  // namespace mpt
