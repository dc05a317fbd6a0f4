#include <mpt/tokenizer/chat/chatml.hpp>

namespace mpt {

std::string chatml(std::span<chat_message const> messages, bool answer_next, chat_form form) {
  std::string out;
  for (auto const& one : messages) {
    out.append(chat_begin).append(one.role).append("\n").append(one.content);
    if (form.ends_system_message || one.role != "system") out.append(chat_end);
    out.append("\n");
  }
  if (answer_next) out.append(chat_begin).append("assistant\n");
  return out;
}

}  // namespace mpt
