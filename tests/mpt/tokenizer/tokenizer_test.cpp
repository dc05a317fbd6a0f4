#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace tokenizer_unit_test {

using id_list = std::vector<std::int32_t>;
using nlohmann::json;
using tokenizer_test::added;
using tokenizer_test::changed_tokenizer;
using tokenizer_test::contains;
using tokenizer_test::message_of;
using tokenizer_test::small_tokenizer;

// The variants of the small tokenizer for which there are reference ids.
mpt::tokenizer variant(std::string const& name) {
  return changed_tokenizer([&](json& file) {
    if (name == "nfc" || name == "added") file["normalizer"] = {{"type", "NFC"}};
    if (name == "prefix") file["pre_tokenizer"]["add_prefix_space"] = true;
    if (name == "whole") file["pre_tokenizer"]["use_regex"] = false;
    if (name == "ignore") {
      file["model"]["ignore_merges"] = true;
      file["model"]["merges"].erase(file["model"]["merges"].size() - 1);
    }
    if (name != "added") return;
    for (auto const& token :
         {added(290, "   ", true), added(291, "  ", true), added(292, "<L>", false),
          added(293, "<R>", false), added(294, "<L> <R>", false), added(295, "e\u0301x", true),
          added(296, "e\u0301y", false)})
      file["added_tokens"].push_back(token);
    file["added_tokens"][3]["lstrip"] = true;
    file["added_tokens"][4]["rstrip"] = true;
  });
}

TEST_CASE("tokenizer: ids equal the reference's for every variant of a small tokenizer") {
  auto const reference = tokenizer_test::reference();
  for (auto const& row : reference["ids"]) {
    auto const text = row["text"].get<std::string>();
    CAPTURE(row["variant"].get<std::string>());
    CAPTURE(text);
    auto const source = variant(row["variant"]);
    auto const ids = source.encode(text);
    CHECK(ids == row["ids"].get<id_list>());
    // neither a warm cache nor a cache of a single slot changes the ids
    for (std::size_t const slots : {1, 1024}) {
      mpt::word_cache cache(slots);
      id_list cached_ids;
      source.encode(text, cached_ids, cache);
      cached_ids.clear();
      source.encode(text, cached_ids, cache);
      CHECK(cached_ids == ids);
    }
  }
}

TEST_CASE("tokenizer: encode appends, and a cache may be used with another tokenizer") {
  auto const plain = small_tokenizer();
  auto const prefix = variant("prefix");
  auto const ignore = variant("ignore");
  mpt::word_cache cache;
  id_list ids = {7};
  plain.encode("the weaver", ids, cache);
  auto expected = plain.encode("the weaver");
  expected.insert(expected.begin(), 7);
  CHECK(ids == expected);
  for (auto const* source : {&plain, &ignore, &prefix, &plain}) {
    ids.clear();
    source->encode(" dog the", ids, cache);
    CHECK(ids == source->encode(" dog the"));
  }
}

TEST_CASE("tokenizer: decoding the ids of any text gives the text") {
  auto const source = small_tokenizer();
  for (std::string const text : {"The dog doesn't\n\n  mind \u4E2D\u6587 \U0001F600", "",
                                 "<|endoftext|> a <|endoftext|>", "\t\u0085\u00A0 x", "cafe\u0301"})
    CHECK(source.decode(source.encode(text)) == text);
  std::string characters;
  for (char32_t c = 0; c < 0x3000; ++c) mpt::utf8::append(characters, c);
  CHECK(source.decode(source.encode(characters)) == characters);
}

TEST_CASE("tokenizer: wrong bytes of a text that is not UTF-8 are read as U+FFFD") {
  auto const source = small_tokenizer();
  CHECK(source.encode("a\xFF b\xE2\x82") == source.encode("a\uFFFD b\uFFFD"));
  CHECK(source.encode("\xC3<|endoftext|>") == source.encode("\uFFFD<|endoftext|>"));
  CHECK(source.decode(source.encode("the\x80")) == "the\uFFFD");
}

TEST_CASE("tokenizer: decoding replaces incomplete characters and may skip special tokens") {
  auto const source = small_tokenizer();
  auto ids = source.encode("<|endoftext|>\u4E2D");
  CHECK(source.decode(ids, mpt::special_tokens::skip) == "\u4E2D");
  ids.pop_back();
  CHECK(source.decode(ids) == "<|endoftext|>\uFFFD");
  CHECK(contains(message_of([&] { (void)source.decode(id_list{290}); }), "no token with id 290"));
  CHECK(contains(message_of([&] { (void)source.decode(id_list{-1}); }), "no token with id -1"));
}

TEST_CASE("tokenizer: an added token that spells bytes is decoded as these bytes") {
  auto const source = changed_tokenizer(
      [](json& file) { file["added_tokens"].push_back(added(290, "\u00E9!", false)); });
  CHECK(source.encode("\u00E9!") == id_list{290});
  CHECK(source.decode(id_list{290}) == "\uFFFD!");  // byte E9 alone
}

TEST_CASE("tokenizer: tokens are found by spelling, id and role") {
  auto const source = small_tokenizer();
  CHECK(source.size() == 290);
  CHECK(source.count() == 290);
  CHECK(source.id_of("<|endoftext|>") == 0);
  CHECK(source.id_of("!") == 1);
  CHECK(source.id_of("\u0120the") == 259);
  CHECK_FALSE(source.id_of(" the").has_value());
  CHECK(source.token_of(259) == "\u0120the");
  CHECK_FALSE(source.token_of(290).has_value());
  CHECK(source.bytes_of(259) == " the");
  CHECK(source.is_special(0));
  CHECK_FALSE(source.is_special(259));
  CHECK(source.eos_id() == 0);
  CHECK(source.id_of_role("bos_token") == 0);
  CHECK_FALSE(source.id_of_role("pad_token").has_value());
  mpt::tokenizer const other({.json = source.files().json,
                              .config = R"({"eos_token": {"content": "\u0120the"}})",
                              .source = {}});
  CHECK(other.eos_id() == 259);
  CHECK(variant("nfc").fingerprint() != source.fingerprint());
}

TEST_CASE("tokenizer: a long text without spaces is encoded in time n log n") {
  auto const source = small_tokenizer();
  std::string text;
  while (text.size() < 300000) text += "thedogthefox";
  auto const ids = source.encode(text);
  CHECK(source.decode(ids) == text);
}

}  // namespace tokenizer_unit_test

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
        "tokenizer_config.json next to it");
  CHECK(message(R"({"eos_token": "</s>"})") == "");  // a new token
  CHECK(message(R"({"eos_token": "!"})") == "");
  CHECK(message("{}") == "");
}

}  // namespace end_of_text_test
