// read_tokenizer_json accepts the forms in which Hugging Face has written tokenizer.json, refuses
// what it does not support by the name of the field, and survives damaged files.
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <mpt/tokenizer/tokenizer_json.hpp>
#include <nlohmann/json.hpp>

#include <mpt/tokenizer/small_tokenizer.hpp>
#include <support/golden/golden.hpp>
#include <support/text_cases.hpp>

namespace tokenizer_json_test {

using nlohmann::json;
using tokenizer_test::added;
using tokenizer_test::contains;

/// The tokenizer.json of the small tokenizer, a byte-level BPE of 290 tokens.
json const& small_file() {
  static json const file = json::parse(tokenizer_test::small_tokenizer().files().json);
  return file;
}

/// The message with which `text` is refused as the tokenizer.json "FILE"; "" if it is not.
std::string error_of(std::string const& text) {
  return tokenizer_test::message_of([&] { (void)mpt::read_tokenizer_json(text, "FILE"); });
}

/// The same for the small tokenizer's file after `change`.
std::string error_after(std::function<void(json&)> const& change) {
  auto file = small_file();
  change(file);
  return error_of(file.dump());
}

TEST_CASE("tokenizer.json: merges given as strings or as pairs are read as the same") {
  CHECK(error_after([](json&) {}) == "");
  auto file = small_file();
  for (auto& merge : file["model"]["merges"]) {
    auto const text = merge.get<std::string>();
    auto const space = text.find(' ');
    merge = json::array({text.substr(0, space), text.substr(space + 1)});
  }
  auto const pairs = mpt::read_tokenizer_json(file.dump(), "FILE");
  auto const strings = mpt::read_tokenizer_json(small_file().dump(), "FILE");
  for (std::int32_t a = 0; a < 290; ++a)
    for (std::int32_t b = 0; b < 290; ++b) {
      auto const* const from_pair = pairs.merges.find(a, b);
      auto const* const from_string = strings.merges.find(a, b);
      bool const is_same =
          from_pair == nullptr || from_string == nullptr
              ? from_pair == from_string
              : from_pair->id == from_string->id && from_pair->rank == from_string->rank;
      if (!is_same) FAIL("the merge of tokens ", a, " and ", b, " differs");
    }
}

TEST_CASE("tokenizer.json: fields without effect on ids, and forms of old files, are accepted") {
  CHECK(error_after([](json& file) {
          file["truncation"] = {{"max_length", 5}};
          file["padding"] = {{"strategy", "BatchLongest"}};
          file["post_processor"] = {{"type", "TemplateProcessing"}};
          file["model"]["unk_token"] = "<|endoftext|>";
          // Old files have no type, and the first line of merges.txt as a merge.
          file["model"].erase("type");
          file["model"]["merges"].insert(file["model"]["merges"].begin(), "#version: 0.2");
        }) == "");
}

/// The tokenizer.json of a small BPE of SentencePiece.
json sentencepiece_file() {
  static json const file = json::parse(std::ifstream(test::golden_folder() / "tokenizers.json",
                                                     std::ios::binary))["bases"]["sentencepiece"];
  return file;
}

/// A pre_tokenizer that splits text by `pattern` into words, then spells them in bytes.
json split_by(json const& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

TEST_CASE("tokenizer.json: an unsupported setting is refused by the name of its field") {
  auto const check_section = [](std::string const& section, json const& file) {
    CHECK(error_of(file.dump()) == "");
    for (auto const& example : test::text_cases("mpt/tokenizer/refused_tokenizers.txt", section)) {
      CAPTURE(example.text);
      auto operations = json::array();
      for (auto const& line : example.lines()) operations.push_back(json::parse(line));
      CHECK(error_of(file.patch(operations).dump()) == example.expected);
    }
  };
  check_section("the small tokenizer", small_file());
  auto with_split = small_file();
  with_split["pre_tokenizer"] =
      split_by({{"Regex", mpt::regular_expression_of(mpt::word_pattern::qwen2)}});
  check_section("the small tokenizer with a Split", with_split);
  check_section("SentencePiece's BPE", sentencepiece_file());
}

TEST_CASE("tokenizer.json: an added token has at most 1024 bytes, and may be one of the model's") {
  auto const long_token = added(290, std::string(1025, 'x'), false);
  CHECK(error_after([&](json& file) { file["added_tokens"].push_back(long_token); }) ==
        "FILE: added_tokens[1].content must have 1 to 1024 bytes, not 1025");
  CHECK(error_after([](json& file) { file["added_tokens"].push_back(added(257, "he", false)); }) ==
        "");
}

TEST_CASE("tokenizer.json: bytes that never occur in UTF-8 may lack a token") {
  CHECK(error_after([](json& f) {
          for (char const* spelling_of_byte : {"\u00C0", "\u00C1", "\u00F5", "\u00FF"})
            f["model"]["vocab"].erase(spelling_of_byte);
        }) == "");
}

TEST_CASE("tokenizer.json: repeated keys, deep nesting and text that is not JSON are refused") {
  CHECK(contains(error_of(R"({"model": {"vocab": {"a": 1, "a": 2}}})"),
                 "FILE: key \"a\" appears twice"));
  CHECK(contains(error_of(std::string(100000, '[')), "nested deeper than 64"));
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  CHECK(contains(error_of(objects), "nested deeper than 64"));
  CHECK(contains(error_of("{\"a\": \"\xFF\"}"), "not valid JSON"));
  CHECK(contains(error_of(""), "not valid JSON"));
}

/// Reads the file and uses the tokenizer.
void encode_and_decode(std::string const& text) {
  mpt::tokenizer const tokenizer({.json = text, .config = {}, .source = {}});
  (void)tokenizer.decode(tokenizer.encode("The dog doesn't <|endoftext|> \u4E2D \x80 caf\u00E9  "));
}

TEST_CASE("tokenizer.json: a damaged file is refused or usable, and never causes a crash") {
  std::string const texts[] = {small_file().dump(), sentencepiece_file().dump()};
  std::mt19937 random(99);
  std::string const alphabet = "{}[]\":,0123456789-.eE \\u\x01\xC3\xFFnulltruefalse";
  int refused = 0;
  for (int round = 0; round < 800; ++round) {
    auto damaged = texts[round % 2];
    for (auto damages = 1 + random() % 4; damages > 0; --damages) {
      auto const position = random() % damaged.size();
      switch (random() % 4) {
        case 0: damaged[position] = alphabet[random() % alphabet.size()]; break;
        case 1: damaged.erase(position, 1 + random() % 20); break;
        case 2:
          damaged.insert(position, damaged.substr(random() % damaged.size(), random() % 30));
          break;
        default: damaged.resize(position + 1); break;
      }
    }
    try {
      encode_and_decode(damaged);
    } catch (parallel::error const& problem) {
      ++refused;
      if (!std::string_view(problem.what()).starts_with("tokenizer.json: "))
        FAIL("the error does not name the file: ", problem.what());
    }
  }
  CHECK(refused > 400);  // else the damage tests little
}

TEST_CASE("tokenizer.json: a random value in a random field never causes a crash") {
  std::mt19937 random(100);
  auto const values = json::parse(R"([null, true, 0, -1, 289, 1e300, "a b", "\u0120the", "", [], {},
                                      ["a", "b"], 18446744073709551615, "NFC", "BPE"])");
  for (int round = 0; round < 1200; ++round) {
    auto file = round % 2 == 0 ? small_file() : sentencepiece_file();
    auto* field = &file;
    while (field->is_structured() && !field->empty() && (field == &file || random() % 4 != 0)) {
      auto child = field->begin();
      std::advance(child, static_cast<std::ptrdiff_t>(random() % field->size()));
      field = &*child;
    }
    *field = values[random() % values.size()];
    try {
      encode_and_decode(file.dump());
    } catch (parallel::error const&) {  // refused
    }
  }
}

}  // namespace tokenizer_json_test
