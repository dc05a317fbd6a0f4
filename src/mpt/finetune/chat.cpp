#include <mpt/finetune/chat.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <mpt/data/json.hpp>

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

}  // namespace mpt::finetune
