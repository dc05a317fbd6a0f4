// choose_files: which files of a repository the programs need.
#pragma once

#include <filesystem>
#include <string>

#include <mpt/hub/listing.hpp>

namespace mpt::hub {

enum class weights { included, excluded };

/// The files of a model, or of a PEFT adapter, that the programs read: configurations, the
/// tokenizer and the weights, safetensors if there are any, else pytorch_model.bin. Other forms of
/// the weights, code and folders are left out.
[[nodiscard]] listing model_files(listing const& files, weights choice = weights::included);

/// The files of a tokenizer.
[[nodiscard]] listing tokenizer_files(listing const& files);

/// A file without which the model, or PEFT's adapter, in `folder` cannot be read; empty if it can:
/// its configuration and, if `choice` includes them, its weights with all their shards.
[[nodiscard]] std::string missing_model_file(std::filesystem::path const& folder, weights choice);

/// A file without which the tokenizer in `folder` cannot be read; empty if it can.
[[nodiscard]] std::string missing_tokenizer_file(std::filesystem::path const& folder);

}  // namespace mpt::hub
