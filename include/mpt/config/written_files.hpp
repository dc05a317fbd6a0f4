// The files that a run writes besides its checkpoints, under names that the user chooses.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mpt {

/// Why `file` cannot be written with `others` and the contents of `save_folder` ("": there is
/// none): it is one of them, or has the name of something that the run itself writes there, as
/// "'ckpt/latest' is ...". Empty where it can. Links are followed.
[[nodiscard]] std::string file_conflict(std::filesystem::path const& file,
                                        std::filesystem::path const& save_folder,
                                        std::vector<std::filesystem::path> const& others = {});

}  // namespace mpt
