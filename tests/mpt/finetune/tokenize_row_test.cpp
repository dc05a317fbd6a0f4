#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>

namespace tokenize_row_test {

using namespace mpt::finetune;

inline std::vector<chat_message> const chat = {{"user", "the fox"}, {"assistant", "the dog"}};

}  // namespace tokenize_row_test

TEST_CASE("conversations are rendered as asked for, else as ChatML unless the tokenizer has more") {
  using namespace tokenize_row_test;
  auto const plain = tokenizer_test::small_tokenizer();
  row_tokenizer chatml(plain);
  CHECK(plain.decode(chatml.turns(chat, "f:1").at(0).response) == "the dog<|im_end|>\n");
  row_tokenizer own(plain, [](std::span<chat_message const> messages, bool next) {
    std::string out;
    for (auto const& one : messages) out += "[" + one.content;
    return next ? out + "[" : out;
  });
  auto const turns = own.turns(chat, "f:1");
  CHECK(plain.decode(turns.at(0).prompt) == "[the fox[");
  CHECK(plain.decode(turns.at(0).response) == "the dog");
  mpt::tokenizer const with_template({.json = plain.files().json,
                                      .config = R"({"chat_template": "{{ messages }}"})",
                                      .source = {}});
  row_tokenizer lacks(with_template);
  CHECK(data_test::message_of([&] { (void)lacks.turns(chat, "f:1"); }) ==
        "f:1: tokenizer.json has a chat_template of its own, which nothing was given to render "
        "with; take it out of tokenizer_config.json to use ChatML");
  CHECK(lacks.turns(turn_text{"the", "dog"}, "f:1").size() == 1);
}
