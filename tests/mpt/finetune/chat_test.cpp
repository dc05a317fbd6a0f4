#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/chat.hpp>

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
  CHECK(
      error_of("x") ==
      "f:1: \"messages\" is of type string, expected a list of {\"role\": ..., \"content\": ...}");
  CHECK(error_of(json::array({message("assistant", "A")})) ==
        "f:1: a conversation of 1 messages; expected at least a question and an answer");
  CHECK(error_of({message("user", "Q"), 3}) ==
        "f:1: message 2 is of type number, expected {\"role\": ..., \"content\": ...}");
  CHECK(error_of({message("user", "Q"), {{"role", "assistant"}}}) ==
        "f:1: message 2: lacks \"content\"");
  CHECK(error_of({message("user", "Q"), {{"role", "assistant"}, {"content", {1}}}}) ==
        "f:1: message 2: \"content\" must be a string, not array");
  CHECK(error_of({message("user", "Q"), {{"role", "assistant"}, {"content", ""}, {"id", 1}}}) ==
        "f:1: message 2 has 3 keys; expected \"role\" and \"content\" alone");
  CHECK(error_of({message("human", "Q"), message("assistant", "A")}) ==
        "f:1: message 1 has the role \"human\"; expected user, assistant, system or tool");
  CHECK(error_of({message("user", "Q"), message("user", "R"), message("assistant", "A")}) ==
        "f:1: message 2 is another one of \"user\"; join the two");
  CHECK(error_of({message("assistant", "A"), message("user", "Q")}) ==
        "f:1: the last message is of \"user\"; expected the assistant's, which is what is learnt");
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
  CHECK(data_test::contains(error_of({{"completion", "c"}, {"response", "r"}}), "the row has"));
  CHECK(data_test::contains(error_of(json::object()), "the row has none; expected"));
  CHECK(error_of({{"prompt", nullptr}, {"response", "r"}}) ==
        "f:1: column \"prompt\" is of type null, expected a string");
  CHECK(data_test::contains(error_of(3), "a row of type number"));
}

TEST_CASE("row format: the error for another form says how such rows are read") {
  using namespace format_row_test;
  using data_test::contains;
  auto const chat =
      json::parse(R"({"id": "1", "conversations": [{"from": "human", "value": "a"}]})");
  CHECK(error_of(chat).ends_with(
      "and nothing else; conversations of \"from\" and \"value\" (ShareGPT) are read with "
      "preprocessing_fn: teknium/OpenHermes-2.5 or, by prepare, --preprocessor "
      "teknium/OpenHermes-2.5"));
  for (auto const* ids : {R"({"input_ids": [1, 2], "labels": [3]})", R"({"tokens": [1]})",
                          R"({"ids": [1]})", R"({"turns": [{"input_ids": [1], "labels": [2]}]})"})
    CHECK(error_of(json::parse(ids))
              .ends_with("and nothing else; rows of token ids are read from MDS sets alone: give "
                         "the text, or the set that prepare --finetuning --tokenizer made of it, "
                         "by dataset.local"));
  CHECK(error_of({{"messages", json::array()}, {"source", "x"}})
            .ends_with("are read with preprocessing_fn: AI-MO/NuminaMath-CoT or, by prepare, "
                       "--preprocessor AI-MO/NuminaMath-CoT"));
  CHECK(contains(error_of({{"text", "x"}}),
                 "prepare makes a set of it, for a loader with name: text"));
  CHECK(contains(error_of({{"tokens", "words"}, {"answer", "x"}}), "name the columns with"));
}
