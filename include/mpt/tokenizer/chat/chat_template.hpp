// chat_template: the Jinja program in a tokenizer's files, if any, that formats conversations.
//
// ChatML: a conversation as one text, each message between marks. MPT's chat models are trained on
// it, and LLM Foundry renders with it when a tokenizer has no template.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/tokenizer/tokenizer_files.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

/// One message of a conversation.
struct chat_message {
  std::string role;  ///< system, user, assistant or tool
  std::string content;

  friend bool operator==(chat_message const&, chat_message const&) = default;
};

/// What begins a message in ChatML.
inline constexpr std::string_view chat_begin = "<|im_start|>";
/// What ends a message in ChatML.
inline constexpr std::string_view chat_end = "<|im_end|>";

/// The text of a conversation; with `answer_next`, up to the start of the assistant's next answer.
[[nodiscard]] std::string chatml(std::span<chat_message const> messages, bool answer_next);

/// Renders messages as the text that a model reads; with `answer_next`, up to the start of the
/// assistant's next answer.
using chat_renderer = std::function<std::string(std::span<chat_message const>, bool answer_next)>;

struct chat_template {
  std::string name;  ///< of the tokenizer, for error messages
  std::string text;  ///< Jinja
  /// The names that the template may use, such as bos_token, and their texts.
  std::vector<std::pair<std::string, std::string>> special_tokens{};
};

/// The template of a tokenizer: the text of chat_template.jinja, or of tokenizer_config.json, where
/// it is a string or the entry called "default" in a list of {"name", "template"}. nullopt if there
/// is none. Throws for another form.
[[nodiscard]] std::optional<chat_template> read_chat_template(tokenizer_files const& files);

}  // namespace mpt
