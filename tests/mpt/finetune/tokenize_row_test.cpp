#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>

namespace tokenize_row_test {

using namespace mpt::finetune;

inline std::vector<chat_message> const chat = {{"user", "the fox"}, {"assistant", "the dog"}};

}  // namespace tokenize_row_test

TEST_CASE("row tokenizer: the tokenizer's chat template renders conversations, else ChatML") {
  using namespace tokenize_row_test;
  auto const plain = tokenizer_test::small_tokenizer();
  row_tokenizer chatml(plain);
  CHECK(plain.decode(chatml.turns(chat, "f:1").at(0).response) == "the dog<|im_end|>\n");
  mpt::tokenizer const with_template({.json = plain.files().json,
                                      .config = R"({"chat_template": "{{ messages }}"})",
                                      .source = {}});
  row_tokenizer templated(with_template, [](mpt::chat_template const& chat_template) {
    CHECK(chat_template.text == "{{ messages }}");
    return [](std::span<chat_message const> messages, bool answer_next) {
      std::string out;
      for (auto const& message : messages) out += "[" + message.content;
      return answer_next ? out + "[" : out;
    };
  });
  auto const turns = templated.turns(chat, "f:1");
  CHECK(plain.decode(turns.at(0).prompt) == "[the fox[");
  CHECK(plain.decode(turns.at(0).response) == "the dog");
  row_tokenizer without_engine(with_template);
  CHECK(data_test::message_of([&] { (void)without_engine.turns(chat, "f:1"); }) ==
        "f:1: tokenizer.json has its own chat_template, and this program was built without a "
        "library for Jinja: put minja's headers (github.com/google/minja) where CMake finds "
        "minja/minja.hpp, and build again; or take it out of tokenizer_config.json to use ChatML");
  CHECK(without_engine.turns(turn_text{"the", "dog"}, "f:1").size() == 1);
}
