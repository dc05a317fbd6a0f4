// Reads prompts from a file: each line of text is one, or each row {"prompt": ...} of JSON lines.
#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

struct file_prompt {
  std::string location;  ///< "file:line"
  std::string text;
};

/// The prompts of a file. A file that ends in .jsonl, .json or .ndjson, with or without .gz or
/// .zst, holds JSON lines; any other file is text of at most 64 MiB whose empty lines are skipped.
/// Throws for a row without a "prompt", for text that is not UTF-8, and for a file without prompts.
[[nodiscard]] std::vector<file_prompt> read_prompts(std::filesystem::path const& file);

/// The whole text of a stream as one prompt: at most 64 MiB of UTF-8. A byte order mark in front is
/// removed.
[[nodiscard]] std::string read_prompt(std::istream& in);

}  // namespace mpt
