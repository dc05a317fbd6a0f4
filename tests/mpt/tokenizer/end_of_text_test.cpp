#include <doctest/doctest.h>

#include <mpt/tokenizer/end_of_text.hpp>
#include <string>

#include <mpt/tokenizer/small_tokenizer.hpp>

namespace end_of_text_test {

mpt::tokenizer configured(std::string const& config) {
  return mpt::tokenizer({.json = tokenizer_test::small_tokenizer().files().json,
                         .config = config,
                         .source = "words/tokenizer.json"});
}

TEST_CASE("end of text: a tokenizer without such a token is refused with reason and advice") {
  CHECK(mpt::require_end(tokenizer_test::small_tokenizer(), "nothing") == 0);
  auto const message = [](std::string const& config) {
    return tokenizer_test::message_of(
        [&] { mpt::require_end(configured(config), "responses would never end"); });
  };
  CHECK(message(R"({"tokenizer_class": "PreTrainedTokenizerFast"})") ==
        "words/tokenizer.json: has no end-of-text token (tokenizer_config.json names no "
        "eos_token): responses would never end; name one of its tokens as \"eos_token\" in the "
        "tokenizer_config.json beside it");
  CHECK(tokenizer_test::contains(message(R"({"eos_token": "</s>"})"),
                                 "(its eos_token '</s>' is not in tokenizer.json): "));
  CHECK(message(R"({"eos_token": "!"})") == "no error");
  CHECK(message("{}") == "no error");
}

}  // namespace end_of_text_test
