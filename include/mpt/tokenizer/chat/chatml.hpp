// ChatML: a conversation as one text, each message between marks. MPT's chat models are trained on
// it, and LLM Foundry renders with it when a tokenizer has no template.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mpt {

struct chat_message {
  std::string role;  ///< system, user, assistant or tool
  std::string content;

  friend bool operator==(chat_message const&, chat_message const&) = default;
};

inline constexpr std::string_view chat_begin = "<|im_start|>";
inline constexpr std::string_view chat_end = "<|im_end|>";

struct chat_form {
  bool ends_system_message = true;  ///< false: like the template of MPT's chat models
};

/// The text of a conversation; with `answer_next`, up to the start of the assistant's next answer.
[[nodiscard]] std::string chatml(std::span<chat_message const> messages, bool answer_next,
                                 chat_form form = {});

}  // namespace mpt
