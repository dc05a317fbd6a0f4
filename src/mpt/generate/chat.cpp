#include <mpt/generate/chat.hpp>

#include <span>

namespace mpt {

chat_form read_chat_form(tokenizer_files const& files) {
  auto const chat_template = read_chat_template(files);
  if (!chat_template) return {};
  auto const& text = chat_template->text;
  bool const has_marks =
      text.find(chat_begin) != std::string::npos && text.find(chat_end) != std::string::npos;
  parallel::require(has_marks, chat_template->name,
                    ": its chat_template does not write ChatML (<|im_start|> and <|im_end|>), and ",
                    jinja_advice, "; or write the whole prompt yourself and give it with --prompt");
  return {.ends_system_message = text.find("system_message.strip() + '\n'") == std::string::npos};
}

std::string chat_text(std::vector<chat_message> const& messages, chat_form form) {
  for (auto const& message : messages)
    for (auto const mark : {chat_begin, chat_end})
      parallel::require(message.content.find(mark) == std::string::npos, "a message of the ",
                        message.role, " holds ", mark,
                        ", which marks where messages begin and end; leave it out");
  return chatml(messages, true, form);
}

chat_renderer read_chat_renderer(tokenizer_files const& files, template_engine const& engine) {
  if (auto const chat_template = read_chat_template(files); chat_template && engine)
    return engine(*chat_template);
  return [form = read_chat_form(files)](std::span<chat_message const> messages, bool answer_next) {
    parallel::require(answer_next, "a conversation is written up to where the assistant speaks");
    return chat_text({messages.begin(), messages.end()}, form);
  };
}

}  // namespace mpt
