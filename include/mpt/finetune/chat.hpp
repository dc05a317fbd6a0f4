// Checks conversations and cuts them into turns of text.
//
// The rules are LLM Foundry's (llmfoundry/data/finetuning/tasks.py). A conversation is rendered up
// to the end of each answer of the assistant. The text that a rendering adds to the previous one is
// a turn: the prompt up to the beginning of the answer, and the answer with the text that closes
// it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/chat/chat_template.hpp>

namespace mpt::finetune {

using mpt::chat_message;
using mpt::chat_renderer;

/// A turn before it is tokenised.
struct turn_text {
  std::string prompt;
  std::string response;

  friend bool operator==(turn_text const&, turn_text const&) = default;
};

/// Renders ChatML, which LLM Foundry uses when the tokenizer has no template.
[[nodiscard]] std::string render_chatml(std::span<chat_message const> messages, bool answer_next);

/// The messages of a row at `location`, which each error names. Errors: a value that is not a list
/// of at least two objects of a role and a content; an unknown role; the same role twice in a row;
/// a last message that is not the assistant's.
[[nodiscard]] std::vector<chat_message> read_messages(nlohmann::json const& value,
                                                      std::string_view location);

/// The turns of a conversation, one for each answer. Error: a template under which a rendering does
/// not begin with the previous rendering, so that turns cannot be separated.
[[nodiscard]] std::vector<turn_text> cut_into_turns(std::span<chat_message const> messages,
                                                    chat_renderer const& render,
                                                    std::string_view location);

/// A row ready to be tokenised.
using formatted_row = std::variant<turn_text, std::vector<chat_message>>;

/// Reads a row by LLM Foundry's rule: it has exactly two columns, "prompt" and "response" (or
/// "completion"), or "messages" alone. Error: other columns, which the message lists after
/// `location`.
[[nodiscard]] formatted_row format_row(nlohmann::json const& row, std::string_view location);

}  // namespace mpt::finetune
