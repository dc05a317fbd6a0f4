// Conversations: checking them, and cutting them into turns of text.
//
// The rules are LLM Foundry's (llmfoundry/data/finetuning/tasks.py). A conversation is rendered as
// far as each answer of the assistant goes; what a rendering adds to the one before it is a turn:
// the prompt up to where the answer begins, and the answer with what closes it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/chat_template.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

using mpt::chat_message;
using mpt::chat_renderer;

/// A turn before it is tokenised.
struct turn_text {
  std::string prompt;
  std::string response;

  friend bool operator==(turn_text const&, turn_text const&) = default;
};

/// ChatML: what LLM Foundry renders with when the tokenizer has no template.
[[nodiscard]] std::string render_chatml(std::span<chat_message const> messages, bool answer_next);

/// The messages of a row. Errors, each with the place: not a list of at least two objects of a role
/// and a content; a role that is none; the same role twice in a row; the last not the assistant's.
[[nodiscard]] std::vector<chat_message> read_messages(nlohmann::json const& value,
                                                      std::string_view where);

/// The turns of a conversation, one for each answer. Error: a template under which a rendering does
/// not begin with the one before it, so that turns cannot be told apart.
[[nodiscard]] std::vector<turn_text> cut_into_turns(std::span<chat_message const> messages,
                                                    chat_renderer const& render,
                                                    std::string_view where);

}  // namespace mpt::finetune
