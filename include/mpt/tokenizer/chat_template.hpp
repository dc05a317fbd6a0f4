// chat_template: how a tokenizer writes conversations, if its files say: a program in Jinja.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <mpt/tokenizer/chatml.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>
#include <nlohmann/json.hpp>
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
[[nodiscard]] inline std::optional<chat_template> read_chat_template(tokenizer_files const& files) {
  constexpr std::uintmax_t largest = 1U << 20U;
  chat_template out{files.name(),
                    {},
                    named_token(files, "bos_token").value_or(""),
                    named_token(files, "eos_token").value_or("")};
  std::error_code unreadable;
  if (auto const file = files.source.parent_path() / "chat_template.jinja";
      !files.source.empty() && std::filesystem::exists(file, unreadable)) {
    out.text = parallel::read_text_file(file, largest);
    return out;
  }
  if (files.config.empty()) return std::nullopt;
  auto const config = parse_json(files.config, "tokenizer_config.json");
  auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) {
    out.text = found->get<std::string>();
    return out;
  }
  if (found->is_array())
    for (auto const& one : *found)
      if (one.is_object() && one.value("name", nlohmann::json()) == "default" &&
          one.contains("template") && one["template"].is_string()) {
        out.text = one["template"].get<std::string>();
        return out;
      }
  parallel::fail(files.name(), ": chat_template in tokenizer_config.json is of type ",
                 found->type_name(),
                 ", expected a string, or a list of {\"name\", \"template\"} with one called "
                 "\"default\"");
}

/// What helps where a template cannot be run.
inline constexpr std::string_view jinja_advice =
    "this program was built without a library for Jinja: put minja's headers "
    "(github.com/google/minja) where CMake finds minja/minja.hpp, and build again";

}  // namespace mpt
