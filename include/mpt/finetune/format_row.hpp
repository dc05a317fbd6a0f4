// Recognises by its columns whether a row of finetuning data is a prompt with its response or a
// conversation.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/finetune/chat.hpp>

namespace mpt::finetune {

/// A row ready to be tokenised.
using formatted_row = std::variant<turn_text, std::vector<chat_message>>;

/// Reads a row by LLM Foundry's rule: it has exactly two columns, "prompt" and "response" (or
/// "completion"), or "messages" alone. Error: other columns, which the message lists after
/// `location`.
[[nodiscard]] formatted_row format_row(nlohmann::json const& row, std::string_view location);

}  // namespace mpt::finetune
