// chat_template: how a tokenizer writes conversations, if its files say: a program in Jinja.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <mpt/tokenizer/chatml.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

/// Renders messages as a model reads them; with `answer_next`, up to where the assistant's next
/// answer begins.
using chat_renderer = std::function<std::string(std::span<chat_message const>, bool answer_next)>;

struct chat_template {
  std::string name;                  ///< of the tokenizer, for messages
  std::string text;                  ///< Jinja
  std::string bos_token, eos_token;  ///< what it may write; may be empty
};

/// Makes a renderer of a template (jinja_renderer.hpp has one); empty where Jinja is not run.
using template_engine = std::function<chat_renderer(chat_template const&)>;

/// That of tokenizer_config.json: a string, or the one called "default" in a list of {"name",
/// "template"}; or what chat_template.jinja beside it holds. None: there is none. Throws for
/// another form.
[[nodiscard]] std::optional<chat_template> read_chat_template(tokenizer_files const& files);

/// What helps where a template cannot be run.
inline constexpr std::string_view jinja_advice =
    "this program was built without a library for Jinja: put minja's headers "
    "(github.com/google/minja) where CMake finds minja/minja.hpp, and build again";

}  // namespace mpt
