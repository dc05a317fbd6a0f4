#include <doctest/doctest.h>

#include <vector>

#include <mpt/tokenizer/chatml.hpp>

TEST_CASE("ChatML marks each message, and where the assistant answers next") {
  std::vector<mpt::chat_message> const said = {{"system", "S"}, {"user", "U"}};
  CHECK(mpt::chatml(said, false) ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n");
  CHECK(mpt::chatml(said, true, {.ends_system_message = false}) ==
        "<|im_start|>system\nS\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
  CHECK(mpt::chatml({}, false).empty());
}
