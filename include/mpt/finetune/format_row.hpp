// What a row of finetuning data is, by its columns: a prompt with its response, or a conversation.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <mpt/finetune/chat.hpp>
#include <mpt/finetune/preprocess.hpp>

namespace mpt::finetune {

/// A row ready to be tokenised.
using formatted_row = std::variant<turn_text, std::vector<chat_message>>;

/// Takes a row by LLM Foundry's rule: exactly two columns, "prompt" and "response" (or
/// "completion"), or "messages" alone. Error: anything else, with the columns that were found.
[[nodiscard]] inline formatted_row format_row(nlohmann::json const& row, std::string_view where) {
  parallel::require(row.is_object(), where, ": a row of type ", row.type_name(),
                    ", expected an object {\"prompt\": ..., \"response\": ...} or {\"messages\": "
                    "[...]}");
  if (row.size() == 1 && row.contains("messages")) return read_messages(row["messages"], where);
  bool const completion = !row.contains("response");
  bool const fits =
      row.size() == 2 && row.contains("prompt") && (!completion || row.contains("completion"));
  parallel::require(fits, where, ": the row has ", columns_of(row),
                    "; expected \"prompt\" and \"response\" (or \"completion\"), or \"messages\", "
                    "and nothing else; name the columns with preprocessing_fn: {prompt: COLUMN, "
                    "response: COLUMN} or, to prepare, by --prompt_column COLUMN --response_column "
                    "COLUMN");
  return turn_text{text_column(row, "prompt", where),
                   text_column(row, completion ? "completion" : "response", where)};
}

}  // namespace mpt::finetune
