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

std::vector<chat_message> read_messages(nlohmann::json const& value, std::string_view where) {
  parallel::require(value.is_array(), where, ": \"messages\" is of type ", value.type_name(),
                    ", expected a list of {\"role\": ..., \"content\": ...}");
  parallel::require(value.size() > 1, where, ": a conversation of ", value.size(),
                    " messages; expected at least a question and an answer");
  constexpr std::array<std::string_view, 4> roles = {"user", "assistant", "system", "tool"};
  std::vector<chat_message> out;
  for (auto const& one : value) {
    auto const place = parallel::concat(where, ": message ", out.size() + 1);
    parallel::require(one.is_object(), place, " is of type ", one.type_name(),
                      ", expected {\"role\": ..., \"content\": ...}");
    chat_message made{.role = data::detail::string_member(one, "role", place),
                      .content = data::detail::string_member(one, "content", place)};
    parallel::require(one.size() == 2, place, " has ", one.size(),
                      " keys; expected \"role\" and \"content\" alone");
    parallel::require(std::ranges::find(roles, made.role) != roles.end(), place, " has the role \"",
                      made.role, "\"; expected user, assistant, system or tool");
    parallel::require(out.empty() || out.back().role != made.role, place, " is another one of \"",
                      made.role, "\"; join the two");
    out.push_back(std::move(made));
  }
  parallel::require(out.back().role == "assistant", where, ": the last message is of \"",
                    out.back().role, "\"; expected the assistant's, which is what is learnt");
  return out;
}

std::vector<turn_text> cut_into_turns(std::span<chat_message const> messages,
                                      chat_renderer const& render, std::string_view where) {
  std::vector<turn_text> out;
  std::string before;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    auto whole = render(messages.first(i + 1), false);
    auto const asked = render(messages.first(i), true);
    parallel::require(asked.starts_with(before) && whole.starts_with(asked), where,
                      ": under the tokenizer's chat template message ", i + 1,
                      " does not go on where the messages before it end, so that its tokens cannot "
                      "be told from theirs; use another template");
    out.push_back({asked.substr(before.size()), whole.substr(asked.size())});
    before = std::move(whole);
  }
  return out;
}

}  // namespace mpt::finetune
