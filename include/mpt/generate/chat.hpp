// A conversation as the text that a chat model continues: ChatML, which MPT's chat models are
// trained on.
//
// A tokenizer's own chat_template is a program in Jinja, which is not run here. Templates that
// write ChatML are recognised by their marks, MPT's own by its one difference (no <|im_end|> ends
// the system's message); others are refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/chatml.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>

namespace mpt {

/// The form that a tokenizer's chat_template has; ChatML where there is none. Throws for others.
[[nodiscard]] inline chat_form read_chat_form(tokenizer_files const& files) {
  if (files.config.empty()) return {};
  auto const config = parse_json(files.config, "tokenizer_config.json");
  auto const found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  parallel::require(found->is_string(), files.name(),
                    ": chat_template in tokenizer_config.json is of type ", found->type_name(),
                    ", expected a string; leave the one template that is ChatML");
  auto const& text = found->get_ref<std::string const&>();
  bool const marks =
      text.find(chat_begin) != std::string::npos && text.find(chat_end) != std::string::npos;
  parallel::require(marks, files.name(),
                    ": its chat_template does not write ChatML (<|im_start|> and <|im_end|>), and "
                    "Jinja is not run here; write the whole prompt yourself and give it with "
                    "--prompt");
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

}  // namespace mpt
