// What a row of finetuning data is, by its columns: a prompt with its response, or a conversation.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/finetune/chat.hpp>

namespace mpt::finetune {

/// A row ready to be tokenised.
using formatted_row = std::variant<turn_text, std::vector<chat_message>>;

/// Takes a row by LLM Foundry's rule: exactly two columns, "prompt" and "response" (or
/// "completion"), or "messages" alone. Error: anything else, with the columns that were found.
[[nodiscard]] formatted_row format_row(nlohmann::json const& row, std::string_view where);

}  // namespace mpt::finetune
