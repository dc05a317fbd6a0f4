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

/// How ChatML is written.
struct chat_form {
  bool ends_system_message = true;  ///< false: like the template of MPT's chat models
};

/// The text of a conversation; with `answer_next`, up to the start of the assistant's next answer.
[[nodiscard]] std::string chatml(std::span<chat_message const> messages, bool answer_next,
                                 chat_form form = {});

/// Renders messages as the text that a model reads; with `answer_next`, up to the start of the
/// assistant's next answer.
using chat_renderer = std::function<std::string(std::span<chat_message const>, bool answer_next)>;

struct chat_template {
  std::string name;                  ///< of the tokenizer, for error messages
  std::string text;                  ///< Jinja
  std::string bos_token, eos_token;  ///< names that the template may use; may be empty
};

/// Makes a renderer of a template (jinja_renderer.hpp has one); empty in programs without Jinja.
using template_engine = std::function<chat_renderer(chat_template const&)>;

/// The template of a tokenizer: the text of chat_template.jinja, or of tokenizer_config.json, where
/// it is a string or the entry called "default" in a list of {"name", "template"}. nullopt if there
/// is none. Throws for another form.
[[nodiscard]] std::optional<chat_template> read_chat_template(tokenizer_files const& files);

/// Advice for programs that cannot run a template.
inline constexpr std::string_view jinja_advice =
    "this program was built without a library for Jinja: put minja's headers "
    "(github.com/google/minja) where CMake finds minja/minja.hpp, and build again";

}  // namespace mpt
