#include <doctest/doctest.h>

#include <cstdint>
#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <random>
#include <string>
#include <vector>

#include <mpt/tokenizer/small_tokenizer.hpp>

namespace stream_decoder_test {

using id_list = std::vector<std::int32_t>;

TEST_CASE("stream decoder: a character is returned with its last byte and not earlier") {
  auto const source = tokenizer_test::small_tokenizer();
  auto const ids = source.encode("\U0001F600");
  REQUIRE(ids.size() == 4);
  mpt::stream_decoder decoder(source);
  CHECK(decoder.push(ids[0]).empty());
  CHECK(decoder.push(ids[1]).empty());
  CHECK(decoder.push(ids[2]).empty());
  CHECK(decoder.push(ids[3]) == "\U0001F600");
  CHECK(decoder.finish().empty());
  CHECK(decoder.push(ids[0]).empty());
  CHECK(decoder.push(source.encode("a")[0]) == "\uFFFDa");
  CHECK(decoder.push(ids[0]).empty());
  CHECK(decoder.finish() == "\uFFFD");
  CHECK(decoder.finish().empty());
}

TEST_CASE(
    "stream decoder: all output equals decoding all ids in one call, and every piece is UTF-8") {
  auto const source = tokenizer_test::small_tokenizer();
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    id_list ids;
    for (auto n = random() % 10; ids.size() < n;)
      ids.push_back(random() % 3 != 0 ? static_cast<std::int32_t>(95 + random() % 162)
                                      : static_cast<std::int32_t>(random() % 290));
    for (auto const special : {mpt::special_tokens::keep, mpt::special_tokens::skip}) {
      mpt::stream_decoder decoder(source, special);
      std::string text;
      for (auto const id : ids) {
        auto const part = decoder.push(id);
        if (!mpt::utf8::is_valid(part)) FAIL("half a character");
        text += part;
      }
      text += decoder.finish();
      if (text != source.decode(ids, special)) FAIL("differs");
    }
  }
}

TEST_CASE("stream decoder: an id without token is an error") {
  auto const source = tokenizer_test::small_tokenizer();
  mpt::stream_decoder decoder(source);
  CHECK(tokenizer_test::contains(tokenizer_test::message_of([&] { (void)decoder.push(4096); }),
                                 "no token with id 4096; ids are below 290"));
}

}  // namespace stream_decoder_test
