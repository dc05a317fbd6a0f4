// choose_files: which files of a repository the programs need.
#pragma once

#include <mpt/hub/listing.hpp>

namespace mpt::hub {

enum class weights { included, excluded };

/// The files of a model, or of PEFT's adapter, that are read here: configurations, the tokenizer
/// and the weights, safetensors if there are any, else pytorch_model.bin. Other forms of the
/// weights, code and folders are left out.
[[nodiscard]] listing model_files(listing const& files, weights choice = weights::included);

/// The files of a tokenizer.
[[nodiscard]] listing tokenizer_files(listing const& files);

}  // namespace mpt::hub
