#include <doctest/doctest.h>

#include <mpt/tokenizer/encode_all.hpp>
#include <string>
#include <vector>

#include "small_tokenizer.hpp"

namespace encode_all_test {

TEST_CASE("results lie in the order of the texts for every number of threads") {
  auto const source = tokenizer_test::small_tokenizer();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 200; ++i) {
    std::string text = "text " + std::to_string(i);
    for (std::size_t j = 0; j < i % 17; ++j) text += tokenizer_test::sentences()[j % 3];
    texts.push_back(text);
  }
  std::vector<std::vector<std::int32_t>> expected;
  for (auto const& text : texts) expected.push_back(source.encode(text));
  for (int threads : {1, 2, 3, 8, 500}) CHECK(mpt::encode_all(source, texts, threads) == expected);
  CHECK(mpt::encode_all(source, {}, 4).empty());
}

TEST_CASE("no threads is an error") {
  auto const source = tokenizer_test::small_tokenizer();
  CHECK(tokenizer_test::contains(
      tokenizer_test::message_of([&] { (void)mpt::encode_all(source, {}, 0); }),
      "at least 1 thread"));
}

}  // namespace encode_all_test
