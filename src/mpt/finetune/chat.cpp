#include <mpt/finetune/chat.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <mpt/data/json.hpp>
#include <mpt/finetune/preprocess.hpp>

namespace mpt::finetune {

std::string render_chatml(std::span<chat_message const> messages, bool answer_next) {
  return chatml(messages, answer_next);
}

std::vector<chat_message> read_messages(nlohmann::json const& value, std::string_view location) {
  parallel::require(value.is_array(), location, ": \"messages\" is of type ", value.type_name(),
                    ", expected a list of {\"role\": ..., \"content\": ...}");
  parallel::require(value.size() > 1, location, ": a conversation of ", value.size(),
                    " messages; expected at least a question and an answer");
  constexpr std::array<std::string_view, 4> roles = {"user", "assistant", "system", "tool"};
  std::vector<chat_message> messages;
  for (auto const& item : value) {
    auto const message_location = parallel::concat(location, ": message ", messages.size() + 1);
    parallel::require(item.is_object(), message_location, " is of type ", item.type_name(),
                      ", expected {\"role\": ..., \"content\": ...}");
    chat_message message{.role = data::string_member(item, "role", message_location),
                         .content = data::string_member(item, "content", message_location)};
    parallel::require(item.size() == 2, message_location, " has ", item.size(),
                      " keys; expected \"role\" and \"content\" alone");
    parallel::require(std::ranges::find(roles, message.role) != roles.end(), message_location,
                      " has the role \"", message.role,
                      "\"; expected user, assistant, system or tool");
    parallel::require(messages.empty() || messages.back().role != message.role, message_location,
                      " is another one of \"", message.role, "\"; join the two");
    messages.push_back(std::move(message));
  }
  parallel::require(messages.back().role == "assistant", location, ": the last message is of \"",
                    messages.back().role, "\"; expected the assistant's, which is what is learnt");
  return messages;
}

std::vector<turn_text> cut_into_turns(std::span<chat_message const> messages,
                                      chat_renderer const& render, std::string_view location) {
  std::vector<turn_text> turns;
  std::string previous_text;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    auto answered_text = render(messages.first(i + 1), false);
    auto const prompt_text = render(messages.first(i), true);
    parallel::require(
        prompt_text.starts_with(previous_text) && answered_text.starts_with(prompt_text), location,
        ": under the tokenizer's chat template message ", i + 1,
        " does not go on where the messages before it end, so that its tokens cannot "
        "be told from theirs; use another template");
    turns.push_back(
        {prompt_text.substr(previous_text.size()), answered_text.substr(prompt_text.size())});
    previous_text = std::move(answered_text);
  }
  return turns;
}

namespace {

/// Advice to the user on a row whose columns are not those that finetuning knows.
[[nodiscard]] std::string_view column_advice(nlohmann::json const& row) {
  auto const holds_ids = [&](char const* name) {
    auto const found = row.find(name);
    return found != row.end() && found->is_array() && !found->empty() &&
           (found->front().is_number() ||
            (found->front().is_object() && found->front().contains("input_ids")));
  };
  for (char const* const name : {"input_ids", "labels", "tokens", "ids", "turns"})
    if (holds_ids(name))
      return "rows of token ids are read from MDS sets alone: give the text, or the set that "
             "prepare --finetuning --tokenizer made of it, by dataset.local";
  auto const chat = row.find("conversations");
  if (chat != row.end() && chat->is_array())
    return "conversations of \"from\" and \"value\" (ShareGPT) are read with preprocessing_fn: "
           "teknium/OpenHermes-2.5 or, by prepare, --preprocessor teknium/OpenHermes-2.5";
  if (row.contains("messages"))
    return "\"messages\" with other columns are read with preprocessing_fn: "
           "AI-MO/NuminaMath-CoT or, by prepare, --preprocessor AI-MO/NuminaMath-CoT";
  if (row.size() == 1 && row.contains("text"))
    return "text without prompts is trained on as in pretraining: prepare makes a set of it, for a "
           "loader with name: text";
  return "name the columns with preprocessing_fn: {prompt: COLUMN, response: COLUMN} or, to "
         "prepare, by --prompt_column COLUMN --response_column COLUMN";
}

}  // namespace

formatted_row format_row(nlohmann::json const& row, std::string_view location) {
  parallel::require(row.is_object(), location, ": a row of type ", row.type_name(),
                    ", expected an object {\"prompt\": ..., \"response\": ...} or {\"messages\": "
                    "[...]}");
  if (row.size() == 1 && row.contains("messages")) return read_messages(row["messages"], location);
  bool const is_completion = !row.contains("response");
  bool const has_known_columns =
      row.size() == 2 && row.contains("prompt") && (!is_completion || row.contains("completion"));
  parallel::require(has_known_columns, location, ": the row has ", columns_of(row),
                    "; expected \"prompt\" and \"response\" (or \"completion\"), or \"messages\", "
                    "and nothing else; ",
                    column_advice(row));
  return turn_text{text_column(row, "prompt", location),
                   text_column(row, is_completion ? "completion" : "response", location)};
}

}  // namespace mpt::finetune
