#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/chat.hpp>
#include <support/text_cases.hpp>

namespace chat_test {

using nlohmann::json;
using namespace mpt::finetune;

inline json message(std::string const& role, std::string const& content) {
  return {{"role", role}, {"content", content}};
}

inline std::string error_of(json const& messages) {
  return data_test::message_of([&] { (void)read_messages(messages, "f:1"); });
}

}  // namespace chat_test

TEST_CASE("conversation: turns are cut where the assistant's answers begin and end") {
  using namespace chat_test;
  auto const messages =
      read_messages({message("system", "S"), message("user", "Q"), message("assistant", "A"),
                     message("user", "R"), message("assistant", "B")},
                    "f:1");
  CHECK(
      render_chatml(messages, false).starts_with("<|im_start|>system\nS<|im_end|>\n<|im_start|>"));
  CHECK(cut_into_turns(messages, render_chatml, "f:1") ==
        std::vector<turn_text>{
            {"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant"
             "\n",
             "A<|im_end|>\n"},
            {"<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n", "B<|im_end|>\n"}});
  // a template that renders only the last message
  auto const render_last_message = [](std::span<chat_message const> messages_to_render, bool) {
    return messages_to_render.back().content;
  };
  CHECK(
      data_test::message_of([&] { (void)cut_into_turns(messages, render_last_message, "f:1"); }) ==
      "f:1: under the tokenizer's chat template message 3 does not go on where the messages "
      "before it end, so that its tokens cannot be told from theirs; use another template");
}

TEST_CASE("conversation: malformed messages are an error with the message's number") {
  using namespace chat_test;
  for (auto const& [row, message] : test::text_cases("mpt/finetune/refused.txt", "conversations"))
    CHECK(error_of(json::parse(row)["messages"]) == message);
}

namespace format_row_test {

using nlohmann::json;
using namespace mpt::finetune;

inline std::string error_of(json const& row) {
  return data_test::message_of([&] { (void)format_row(row, "f:1"); });
}

}  // namespace format_row_test

TEST_CASE("row format: a row is two columns of text, or messages alone") {
  using namespace format_row_test;
  CHECK(std::get<turn_text>(format_row({{"prompt", "p"}, {"response", "r"}}, "f:1")) ==
        turn_text{"p", "r"});
  CHECK(std::get<turn_text>(format_row({{"prompt", "p"}, {"completion", "c"}}, "f:1")) ==
        turn_text{"p", "c"});
}

TEST_CASE("row format: the error for another form says how such rows are read") {
  using namespace format_row_test;
  for (auto const& [row, message] : test::text_cases("mpt/finetune/refused.txt", "rows"))
    CHECK(error_of(json::parse(row)) == message);
}
