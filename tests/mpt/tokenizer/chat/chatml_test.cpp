#include <doctest/doctest.h>

#include <vector>

#include <mpt/tokenizer/chat/chatml.hpp>

TEST_CASE("ChatML: each message is marked, and so is the start of the next answer") {
  std::vector<mpt::chat_message> const messages = {{"system", "S"}, {"user", "U"}};
  CHECK(mpt::chatml(messages, false) ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n");
  CHECK(mpt::chatml(messages, true, {.ends_system_message = false}) ==
        "<|im_start|>system\nS\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
  CHECK(mpt::chatml({}, false).empty());
}
