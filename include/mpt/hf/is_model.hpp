// Recognises a model of another program by its path, without opening it.
#pragma once

#include <filesystem>

#include <parallel/core/file.hpp>

namespace mpt::hf {

/// Whether `path` is a file of PyTorch, the form in which Composer saves checkpoints.
[[nodiscard]] bool is_torch_file(std::filesystem::path const& path);

/// Whether `path` is a folder in Hugging Face's form, or a file of PyTorch.
[[nodiscard]] bool is_model(std::filesystem::path const& path);

}  // namespace mpt::hf
