// Reads prompts from a file: each line of text is one, or each row {"prompt": ...} of JSON lines.
//
// Writes a conversation as the text that a chat model continues: by the tokenizer's chat_template,
// or as ChatML, which MPT's chat models are trained on.
#pragma once

#include <chrono>
#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include <mpt/tokenizer/chat/chat_template.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

/// A prompt of a file.
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

/// The conversation up to the point at which the assistant speaks. Throws for a message that holds
/// ChatML's marks: the message would end there, and what follows would count as another message.
[[nodiscard]] std::string chat_text(std::vector<chat_message> const& messages);

/// A function that writes conversations: by the tokenizer's chat_template, to which the date is
/// `now`, or, without a template, as ChatML.
[[nodiscard]] chat_renderer read_chat_renderer(tokenizer_files const& files,
                                               std::chrono::local_seconds date);

}  // namespace mpt
