// Small tokenizers of all kinds against Hugging Face's tokenizers (tests/golden/tokenizers.json,
// written by tests/reference/make_tokenizer_golden.py).
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <support/golden/golden.hpp>
#include <vector>

namespace tokenizer_golden_test {

using id_list = std::vector<std::int32_t>;
using nlohmann::json;

json const& golden() {
  static json const file =
      json::parse(std::ifstream(test::golden_folder() / "tokenizers.json", std::ios::binary));
  return file;
}

mpt::tokenizer tokenizer_of(json const& variant) {
  auto file = golden()["bases"].at(variant["base"].get<std::string>());
  file.merge_patch(variant["patch"]);
  return mpt::tokenizer({.json = file.dump(), .config = {}, .source = {}});
}

TEST_CASE("tokenizer: ids equal the reference's for small tokenizers of every kind") {
  CHECK(golden()["variants"].size() > 20);
  for (auto const& variant : golden()["variants"]) {
    CAPTURE(variant["variant"].get<std::string>());
    auto const source = tokenizer_of(variant);
    mpt::word_cache cache;
    for (std::size_t i = 0; i < golden()["texts"].size(); ++i) {
      auto const text = golden()["texts"][i].get<std::string>();
      CAPTURE(text);
      CHECK(source.encode(text) == variant["ids"][i].get<id_list>());
      id_list cached_ids;
      source.encode(text, cached_ids, cache);
      CHECK(cached_ids == variant["ids"][i].get<id_list>());
    }
  }
}

TEST_CASE("tokenizer: texts of ids equal the reference's for small tokenizers of every kind") {
  for (auto const& variant : golden()["variants"]) {
    CAPTURE(variant["variant"].get<std::string>());
    auto const source = tokenizer_of(variant);
    for (std::size_t i = 0; i < variant["decoded_ids"].size(); ++i) {
      auto const ids = variant["decoded_ids"][i].get<id_list>();
      CAPTURE(json(ids).dump());
      for (auto const special : {mpt::special_tokens::keep, mpt::special_tokens::skip}) {
        auto const expected =
            variant["texts"][i][special == mpt::special_tokens::keep ? 0 : 1].get<std::string>();
        CHECK(source.decode(ids, special) == expected);
        mpt::stream_decoder decoder(source, special);
        std::string streamed;
        for (auto const id : ids) streamed += decoder.push(id);
        CHECK((streamed += decoder.finish()) == expected);
      }
    }
  }
}

TEST_CASE(
    "tokenizer: a long SentencePiece text is encoded in time n log n, with and without spaces") {
  for (auto const& variant : golden()["variants"]) {
    auto const name = variant["variant"].get<std::string>();
    if (name != "prepend" && name != "joined") continue;
    auto const source = tokenizer_of(variant);
    std::string text;
    while (text.size() < 300000) text += text.size() < 150000 ? "the dog " : "thedog";
    CHECK(source.decode(source.encode(text)) == text);
  }
}

TEST_CASE("stream decoder: a text that continues keeps the space in front of its first word") {
  auto const source = tokenizer_of(golden()["variants"][0]);
  auto const ids = source.encode("the");
  mpt::stream_decoder begin(source);
  CHECK(begin.push(ids.at(0)) == "the");
  CHECK(begin.push(ids.at(0)) == " the");
  CHECK(begin.finish().empty());
  CHECK(begin.push(ids.at(0)) == "the");  // of the next text
  mpt::stream_decoder rest(source, mpt::special_tokens::keep, mpt::text_position::continuation);
  CHECK(rest.push(ids.at(0)) == " the");
}

}  // namespace tokenizer_golden_test
