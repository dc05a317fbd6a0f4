#include <vector>

#include <doctest/doctest.h>

#include <mpt/tokenizer/chat/chat_template.hpp>
#include "mpt/data/scratch.hpp"
#include "parallel/support/files.hpp"

namespace chat_template_test {

std::optional<mpt::chat_template> read(nlohmann::json const& config) {
  return mpt::read_chat_template({.json = "{}", .config = config.dump(), .source = {}});
}

TEST_CASE("chat template: is read as a string or the default of a list, with its tokens") {
  CHECK_FALSE(mpt::read_chat_template({.json = "{}", .config = "", .source = {}}).has_value());
  CHECK_FALSE(read({{"chat_template", nullptr}}).has_value());
  auto const one = read(
      {{"chat_template", "{{ 1 }}"}, {"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}});
  REQUIRE(one.has_value());
  CHECK(one->text == "{{ 1 }}");
  using tokens = std::vector<std::pair<std::string, std::string>>;
  CHECK(one->special_tokens ==
        tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<|endoftext|>"}});
  auto const qwen = read({{"chat_template", "{{ 1 }}"},
                          {"tokenizer_class", "Qwen2Tokenizer"},
                          {"bos_token", nullptr},
                          {"pad_token", "<pad>"},
                          {"unk_token", nullptr}});
  CHECK(qwen.value().special_tokens ==
        tokens{{"eos_token", "<|endoftext|>"}, {"pad_token", "<pad>"}});
  auto const list = nlohmann::json::array(
      {{{"name", "tool_use"}, {"template", "a"}}, {{"name", "default"}, {"template", "b"}}});
  CHECK(read({{"chat_template", list}}).value().text == "b");
  CHECK_THROWS_AS(static_cast<void>(read({{"chat_template", 3}})), parallel::error);
}

TEST_CASE("chat template: chat_template.jinja next to the tokenizer has priority") {
  test::temporary_folder const folder;
  test::write_all(folder / "chat_template.jinja", "{{ 2 }}");
  mpt::tokenizer_files const files{.json = "{}",
                                   .config = R"({"chat_template": "{{ 1 }}"})",
                                   .source = folder / "tokenizer.json"};
  CHECK(mpt::read_chat_template(files).value().text == "{{ 2 }}");
}

}  // namespace chat_template_test

TEST_CASE("ChatML: each message is marked, and so is the start of the next answer") {
  std::vector<mpt::chat_message> const messages = {{"system", "S"}, {"user", "U"}};
  CHECK(mpt::chatml(messages, false) ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n");
  CHECK(mpt::chatml(messages, true).ends_with("U<|im_end|>\n<|im_start|>assistant\n"));
  CHECK(mpt::chatml({}, false).empty());
}
