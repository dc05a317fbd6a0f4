// Whether a path is a model of another program, without opening it.
#pragma once

#include <filesystem>

#include <parallel/core/file.hpp>

namespace mpt::hf {

/// A file of PyTorch's, as Composer saves checkpoints.
[[nodiscard]] bool is_torch_file(std::filesystem::path const& path);

/// A folder in Hugging Face's form, or such a file.
[[nodiscard]] bool is_model(std::filesystem::path const& path);

}  // namespace mpt::hf
