// Writes a conversation as the text that a chat model continues: by the tokenizer's chat_template,
// or as ChatML, which MPT's chat models are trained on.
//
// A program that is built without a library for Jinja recognises templates that write ChatML by
// their marks, and MPT's template by its one difference (no <|im_end|> ends the system's message).
// It refuses all others.
#pragma once

#include <string>
#include <vector>

#include <mpt/tokenizer/chat/chat_template.hpp>
#include <mpt/tokenizer/chat/chatml.hpp>

namespace mpt {

/// The form of ChatML that a tokenizer's chat_template writes. Throws when the template writes
/// something else.
[[nodiscard]] chat_form read_chat_form(tokenizer_files const& files);

/// The conversation up to the point at which the assistant speaks. Throws for a message that holds
/// ChatML's marks: the message would end there, and what follows would count as another message.
[[nodiscard]] std::string chat_text(std::vector<chat_message> const& messages, chat_form form = {});

/// A function that writes conversations: by the tokenizer's chat_template, which `engine` runs, or,
/// without a template or an engine, as ChatML.
[[nodiscard]] chat_renderer read_chat_renderer(tokenizer_files const& files,
                                               template_engine const& engine);

}  // namespace mpt
