// Up to the first zero byte a tokenizer_config.json, whose chat template is looked up but not run;
// after it the messages of a conversation, which are rendered as ChatML and cut into turns.
#include <mpt/finetune/chat.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::chat_template(std::string_view input) {
  auto const end = input.find('\0');
  refused([&] {
    mpt::tokenizer_files files;
    files.config = input.substr(0, end);
    auto const found = mpt::read_chat_template(files);
    ensure(!found || !files.config.empty(), "a template is from a file");
  });
  if (end == input.npos) return;
  refused([&] {
    auto const messages = mpt::finetune::read_messages(
        mpt::data::parse_json(input.substr(end + 1), "messages"), "messages");
    std::string conversation;
    for (auto const& turn :
         mpt::finetune::cut_into_turns(messages, mpt::finetune::render_chatml, "messages"))
      conversation += turn.prompt + turn.response;
    ensure(conversation == mpt::chatml(messages, false), "turns are the conversation, cut");
  });
}
