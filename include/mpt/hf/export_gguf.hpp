// export_gguf: writes a model as one GGUF file, which llama.cpp and the programs built on it run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mpt/hf/convert.hpp>
#include <mpt/hf/model_source.hpp>

namespace mpt {

/// Writes the model, adapters merged into its weights, and its tokenizer, where it is known, as the
/// file `out`, which appears when it is complete; some rows of a tensor are in memory at once.
/// Returns what is to be known of the file, a sentence each. Throws before it writes anything for
/// a model or a tokenizer that llama.cpp cannot hold, with all reasons, and for a file that exists,
/// unless it is a GGUF file and options.existing is `replace`.
std::vector<std::string> export_gguf(model_source const& source, std::filesystem::path const& out,
                                     convert_options const& options);

}  // namespace mpt
