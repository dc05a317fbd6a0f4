// Up to the first zero byte a tokenizer_config.json, whose chat template renders a conversation;
// after it the messages of another, which are rendered as ChatML and cut into turns.
#include <mpt/finetune/chat.hpp>
#include <mpt/tokenizer/chat/jinja_renderer.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::chat_template(std::string_view input) {
  auto const end = input.find('\0');
  refused([&] {
    mpt::tokenizer_files files;
    files.config = input.substr(0, end);
    auto const found = mpt::read_chat_template(files);
    ensure(!found || !files.config.empty(), "a template is from a file");
    if (!found) return;
    std::vector<mpt::chat_message> const messages{{"system", "S"}, {"user", "U"}, {"tool", "5"}};
    auto const render = mpt::make_jinja_renderer(*found, {});
    ensure(render(messages, true) == render(messages, true), "a template gives one text");
  });
  if (end == input.npos) return;
  refused([&] {
    auto const messages = mpt::finetune::read_messages(
        mpt::parse_json(input.substr(end + 1), "messages"), "messages");
    std::string conversation;
    for (auto const& turn :
         mpt::finetune::cut_into_turns(messages, mpt::finetune::render_chatml, "messages"))
      conversation += turn.prompt + turn.response;
    ensure(conversation == mpt::chatml(messages, false), "turns are the conversation, cut");
  });
}
