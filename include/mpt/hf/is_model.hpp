// Whether a path is a model of another program, without opening it.
#pragma once

#include <filesystem>
#include <system_error>

#include <parallel/core/file.hpp>

namespace mpt::hf {

/// A file of PyTorch's, as Composer saves checkpoints.
[[nodiscard]] inline bool is_torch_file(std::filesystem::path const& path) {
  std::error_code unreadable;  // then it is none
  return (path.extension() == ".pt" || path.extension() == ".bin") &&
         std::filesystem::is_regular_file(path, unreadable);
}

/// A folder in Hugging Face's form, or such a file.
[[nodiscard]] inline bool is_model(std::filesystem::path const& path) {
  return is_torch_file(path) || parallel::files::exists(path / "config.json");
}

}  // namespace mpt::hf
