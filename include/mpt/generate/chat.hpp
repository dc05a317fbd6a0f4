// A conversation as the text that a chat model continues: by the tokenizer's own chat_template, or
// ChatML, which MPT's chat models are trained on.
//
// Without a library for Jinja, templates that write ChatML are recognised by their marks, MPT's own
// by its one difference (no <|im_end|> ends the system's message); others are refused.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/chat_template.hpp>
#include <mpt/tokenizer/chatml.hpp>

namespace mpt {

/// The form of ChatML that a tokenizer's chat_template has. Throws for others.
[[nodiscard]] inline chat_form read_chat_form(tokenizer_files const& files) {
  auto const own = read_chat_template(files);
  if (!own) return {};
  auto const& text = own->text;
  bool const marks =
      text.find(chat_begin) != std::string::npos && text.find(chat_end) != std::string::npos;
  parallel::require(marks, own->name,
                    ": its chat_template does not write ChatML (<|im_start|> and <|im_end|>), and ",
                    jinja_advice, "; or write the whole prompt yourself and give it with --prompt");
  return {.ends_system_message = text.find("system_message.strip() + '\n'") == std::string::npos};
}

/// The conversation, up to where the assistant speaks. Throws for a message that holds ChatML's
/// marks: it would end itself and begin another.
[[nodiscard]] inline std::string chat_text(std::vector<chat_message> const& messages,
                                           chat_form form = {}) {
  for (auto const& message : messages)
    for (auto const mark : {chat_begin, chat_end})
      parallel::require(message.content.find(mark) == std::string::npos, "a message of the ",
                        message.role, " holds ", mark,
                        ", which marks where messages begin and end; leave it out");
  return chatml(messages, true, form);
}

/// How a tokenizer's conversations are written: by its own template, which `engine` runs, or as
/// ChatML.
[[nodiscard]] inline chat_renderer read_chat_renderer(tokenizer_files const& files,
                                                      template_engine const& engine) {
  if (auto const own = read_chat_template(files); own && engine) return engine(*own);
  return [form = read_chat_form(files)](std::span<chat_message const> messages, bool answer_next) {
    parallel::require(answer_next, "a conversation is written up to where the assistant speaks");
    return chat_text({messages.begin(), messages.end()}, form);
  };
}

}  // namespace mpt
