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
  row_tokenizer chatml(plain, {});
  CHECK(plain.decode(chatml.turns(chat, "f:1").at(0).response) == "the dog<|im_end|>\n");
  constexpr auto config =
      R"({"chat_template": "{% for m in messages %}[{{ m.content }}{% endfor %}{{ '[' if add_generation_prompt }}"})";
  mpt::tokenizer const with_template({.json = plain.files().json, .config = config, .source = {}});
  row_tokenizer templated(with_template, {});
  auto const turns = templated.turns(chat, "f:1");
  CHECK(plain.decode(turns.at(0).prompt) == "[the fox[");
  CHECK(plain.decode(turns.at(0).response) == "the dog");
}
