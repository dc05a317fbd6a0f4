#include <mpt/tokenizer/chat/chat_template.hpp>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include <nlohmann/json.hpp>

namespace mpt {

std::optional<chat_template> read_chat_template(tokenizer_files const& files) {
  constexpr std::uintmax_t largest = 1U << 20U;
  chat_template out{files.name(), {}};
  for (char const* const role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (auto token = named_token(files, role))
      out.special_tokens.emplace_back(role, std::move(*token));
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

std::string chatml(std::span<chat_message const> messages, bool answer_next) {
  std::string out;
  for (auto const& one : messages) {
    out.append(chat_begin).append(one.role).append("\n").append(one.content);
    out.append(chat_end).append("\n");
  }
  if (answer_next) out.append(chat_begin).append("assistant\n");
  return out;
}

}  // namespace mpt
