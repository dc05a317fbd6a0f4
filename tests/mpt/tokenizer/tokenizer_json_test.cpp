#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <mpt/tokenizer/tokenizer_json.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <support/golden/golden.hpp>

#include <mpt/tokenizer/small_tokenizer.hpp>

namespace tokenizer_json_test {

using nlohmann::json;
using tokenizer_test::added;
using tokenizer_test::contains;

json const& small_file() {
  static json const file = json::parse(tokenizer_test::small_tokenizer().files().json);
  return file;
}

std::string error_of(std::string const& text) {
  return tokenizer_test::message_of([&] { (void)mpt::read_tokenizer_json(text, "FILE"); });
}

std::string error_after(std::function<void(json&)> const& change) {
  auto file = small_file();
  change(file);
  return error_of(file.dump());
}

// The message must begin with the file and the field, and hold the reason.
void check_error(std::function<void(json&)> const& change, std::string_view field,
                 std::string_view reason) {
  auto const message = error_after(change);
  CAPTURE(message);
  CHECK(message.starts_with("FILE: " + std::string(field)));
  CHECK(contains(message, reason));
}

TEST_CASE("tokenizer.json: the same merges may be given as strings or as pairs") {
  CHECK(error_after([](json&) {}) == "no error");
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
      auto const* const one = pairs.merges.find(a, b);
      auto const* const two = strings.merges.find(a, b);
      bool const is_expected = one == nullptr
                                   ? two == nullptr
                                   : two != nullptr && one->id == two->id && one->rank == two->rank;
      if (!is_expected) FAIL("merge of ", a, " and ", b);
    }
}

TEST_CASE("tokenizer.json: truncation, padding and post_processor are ignored") {
  CHECK(error_after([](json& file) {
          file["truncation"] = {{"max_length", 5}};
          file["padding"] = {{"strategy", "BatchLongest"}};
          file["post_processor"] = {{"type", "TemplateProcessing"}};
          file["model"]["unk_token"] = "<|endoftext|>";
          file["model"].erase("type");  // as in old files
          file["model"]["merges"].insert(file["model"]["merges"].begin(), "#version: 0.2");
        }) == "no error");
}

TEST_CASE("tokenizer.json: unsupported settings are refused by the name of their field") {
  check_error([](json& f) { f["model"]["type"] = "Unigram"; }, "model.type", "\"Unigram\"");
  check_error([](json& f) { f["model"]["dropout"] = 0.1; }, "model.dropout", "deterministic");
  check_error([](json& f) { f["model"]["byte_fallback"] = true; }, "model.byte_fallback", "true");
  check_error([](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; },
              "model.end_of_word_suffix", "is set");
  check_error([](json& f) { f["model"]["continuing_subword_prefix"] = "##"; },
              "model.continuing_subword_prefix", "is set");
  check_error([](json& f) { f["normalizer"] = {{"type", "NFKC"}}; }, "normalizer.type", "\"NFKC\"");
  check_error([](json& f) { f["pre_tokenizer"]["type"] = "Metaspace"; }, "pre_tokenizer.type",
              "\"Metaspace\"");
  check_error([](json& f) { f["decoder"]["type"] = "WordPiece"; }, "decoder.type", "\"WordPiece\"");
}

json sentencepiece_file() {
  static json const file = json::parse(std::ifstream(test::golden_folder() / "tokenizers.json",
                                                     std::ios::binary))["bases"]["sentencepiece"];
  return file;
}

json split_by(json const& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

TEST_CASE("tokenizer.json: the error for an unknown split pattern shows it and names the known") {
  auto const split = [](std::function<void(json&)> const& change) {
    return [change](json& f) {
      f["pre_tokenizer"] =
          split_by({{"Regex", mpt::regular_expression_of(mpt::word_pattern::qwen2)}});
      change(f["pre_tokenizer"]["pretokenizers"]);
    };
  };
  std::string const first = "pre_tokenizer.pretokenizers[0]";
  std::string const second = "pre_tokenizer.pretokenizers[1]";
  CHECK(error_after(split([](json&) {})) == "no error");
  check_error(split([](json& steps) {
                steps[0]["pattern"] = {{"Regex", "\\w+"}};
              }),
              first + ".pattern.Regex is \"\\w+\"",
              "known patterns are GPT-2's, GPT-4's and Llama");
  check_error(split([](json& steps) {
                steps[0]["pattern"] = {{"String", " "}};
              }),
              first + ".pattern.Regex", "is missing");
  check_error(split([](json& steps) { steps[0]["behavior"] = "Removed"; }), first + ".behavior",
              "only \"Isolated\" is supported where invert is false");
  check_error(split([](json& steps) { steps[0]["invert"] = true; }), first + ".behavior",
              "only \"Removed\"");
  check_error(split([](json& steps) { steps[1]["use_regex"] = true; }), second + ".use_regex",
              "after a Split");
  check_error(split([](json& steps) { steps[1]["add_prefix_space"] = true; }),
              second + ".add_prefix_space", "after a Split");
  check_error(split([](json& steps) { steps[1]["type"] = "Digits"; }), second + ".type",
              "\"Digits\"; supported here: ByteLevel, or a Sequence of Split and ByteLevel");
  check_error(split([](json& steps) { steps.erase(1); }), "pre_tokenizer.pretokenizers",
              "holds no ByteLevel");
}

TEST_CASE("tokenizer.json: the error for a step that SentencePiece's BPE lacks names the field") {
  auto const check = [](std::function<void(json&)> const& change, std::string const& field,
                        std::string_view reason) {
    auto file = sentencepiece_file();
    change(file);
    auto const message = error_of(file.dump());
    CAPTURE(message);
    CHECK(message.starts_with("FILE: " + field));
    CHECK(contains(message, reason));
  };
  CHECK(error_of(sentencepiece_file().dump()) == "no error");
  json const metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  auto const with_metaspace = [&](char const* field, json const& value) {
    return [metaspace, field, value](json& f) {
      f["pre_tokenizer"] = metaspace;
      f["pre_tokenizer"][field] = value;
    };
  };
  check(with_metaspace("replacement", "_"), "pre_tokenizer.replacement is \"_\"", "\u2581");
  check(with_metaspace("prepend_scheme", "last"), "pre_tokenizer.prepend_scheme is \"last\"",
        "\"first\", \"always\" and \"never\"");
  check(
      [&](json& f) {
        with_metaspace("prepend_scheme", "first")(f);
        f["pre_tokenizer"]["add_prefix_space"] = false;
      },
      "pre_tokenizer.prepend_scheme", "but add_prefix_space is false");
  check(
      [](json& f) {
        f["pre_tokenizer"] = {{"type", "Whitespace"}};
      },
      "pre_tokenizer.type", "none or one Metaspace");
  check([](json& f) { f["normalizer"]["normalizers"][0]["prepend"] = "_"; },
        "normalizer.normalizers[0].prepend", "is \"_\"");
  check(
      [](json& f) {
        f["normalizer"]["normalizers"][1]["pattern"] = {{"String", "\t"}};
      },
      "normalizer.normalizers[1].pattern.String", "only \" \"");
  check(
      [](json& f) {
        f["normalizer"] = {{"type", "Precompiled"}};
      },
      "normalizer.type", "\"Precompiled\"");
  check([](json& f) { f["decoder"]["decoders"].erase(2); }, "decoder.decoders[2].type is \"Strip\"",
        "in this order");
  check([](json& f) { f["decoder"]["decoders"][3]["stop"] = 1; }, "decoder.decoders[3].stop",
        "from 0 to 0");
  check([](json& f) { f["decoder"]["decoders"] = 5; }, "decoder.decoders", "must be an array");
  check([](json& f) { f["model"]["unk_token"] = "<none>"; }, "model.unk_token",
        "\"<none>\" is not in model.vocab");
  check(
      [](json& f) {
        f["model"]["byte_fallback"] = false;
        f["model"]["unk_token"] = nullptr;
      },
      "model.vocab", "neither an unk_token nor");
}

TEST_CASE("tokenizer.json: missing fields and wrong types are named") {
  check_error([](json& f) { f = json::array(); }, "the file", "must be an object, not array");
  check_error([](json& f) { f.erase("model"); }, "model", "is missing");
  check_error([](json& f) { f["pre_tokenizer"] = nullptr; }, "pre_tokenizer", "is missing");
  check_error([](json& f) { f["pre_tokenizer"].erase("add_prefix_space"); },
              "pre_tokenizer.add_prefix_space", "is missing");
  check_error([](json& f) { f["pre_tokenizer"]["use_regex"] = 1; }, "pre_tokenizer.use_regex",
              "true or false");
  check_error([](json& f) { f["model"]["vocab"] = json::array(); }, "model.vocab", "not array");
  check_error([](json& f) { f["model"]["merges"] = json::object(); }, "model.merges", "not object");
  check_error([](json& f) { f["added_tokens"] = "x"; }, "added_tokens", "not string");
  check_error([](json& f) { f["added_tokens"][0] = 3; }, "added_tokens[0]", "not number");
}

TEST_CASE("tokenizer.json: wrong ids and tokens of the vocabulary are named") {
  auto const vocab = [](auto const& change) {
    return [change](json& f) { change(f["model"]["vocab"]); };
  };
  check_error(vocab([](json& v) { v["he"] = -1; }), "model.vocab", "\"he\" must be a whole number");
  check_error(vocab([](json& v) { v["he"] = 1.5; }), "model.vocab", "\"he\" must be");
  check_error(vocab([](json& v) { v["he"] = "7"; }), "model.vocab", "\"he\" must be");
  check_error(vocab([](json& v) { v["he"] = 1 << 21; }), "model.vocab", "from 0 to 2097151");
  check_error(vocab([](json& v) { v["he"] = 18446744073709551615U; }), "model.vocab", "must be");
  check_error(vocab([](json& v) { v["he"] = 5; }), "model.vocab", "the id 5 belongs to two tokens");
  check_error(vocab([](json& v) { v[""] = 300; }), "model.vocab", "an empty token");
  check_error(vocab([](json& v) { v.erase("\u0120"); }), "model.vocab", "no token for byte 32");
}

TEST_CASE("tokenizer.json: bytes that never occur in UTF-8 may be missing") {
  CHECK(error_after([](json& f) {
          for (char const* byte : {"\u00C0", "\u00C1", "\u00F5", "\u00FF"})
            f["model"]["vocab"].erase(byte);
        }) == "no error");
}

TEST_CASE("tokenizer.json: the error for a wrong merge gives its index") {
  auto const merges = [](json const& merge) {
    return [merge](json& f) { f["model"]["merges"][3] = merge; };
  };
  check_error(merges("ab"), "model.merges[3]", "must be two tokens");
  check_error(merges("a b c"), "model.merges[3]", "must be two tokens");
  check_error(merges(7), "model.merges[3]", "must be two tokens");
  check_error(merges(json::array({"a", 1})), "model.merges[3]", "must be two tokens");
  check_error(merges("zzz b"), "model.merges[3]", "left token \"zzz\" is not in model.vocab");
  check_error(merges("b zzz"), "model.merges[3]", "right token \"zzz\" is not in model.vocab");
  check_error(merges("z b"), "model.merges[3]", "merged token \"zb\" is not in model.vocab");
  check_error(merges(" b"), "model.merges[3]", "left token \"\"");
  check_error(merges("h e"), "model.merges[3]", "has been merged before");
}

TEST_CASE("tokenizer.json: the error for a wrong added token gives its index") {
  auto const with_added_token = [](json const& token) {
    return [token](json& f) { f["added_tokens"].push_back(token); };
  };
  check_error(with_added_token(added(290, "", false)), "added_tokens[1].content",
              "1 to 1024 bytes");
  check_error(with_added_token(added(290, std::string(1025, 'x'), false)),
              "added_tokens[1].content", "1025");
  check_error(with_added_token(added(290, "<|endoftext|>", false)), "added_tokens[1].content",
              "listed twice");
  check_error(with_added_token(added(9, "<new>", false)), "added_tokens[1].id",
              "would make it 290");
  check_error(with_added_token(added(291, "<new>", false)), "added_tokens[1].id",
              "would make it 290");
  check_error(with_added_token(added(-3, "<new>", false)), "added_tokens[1].id",
              "must be a whole number");
  check_error(with_added_token(added(5, "he", false)), "added_tokens[1].id",
              "has id 257 in model.vocab");
  CHECK(error_after(with_added_token(added(257, "he", false))) == "no error");
}

TEST_CASE("tokenizer.json: repeated keys and deep nesting are refused") {
  CHECK(contains(error_of(R"({"model": {"vocab": {"a": 1, "a": 2}}})"),
                 "FILE: key \"a\" appears twice"));
  CHECK(contains(error_of(std::string(100000, '[')), "nested deeper than 64"));
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  CHECK(contains(error_of(objects), "nested deeper than 64"));
  CHECK(contains(error_of("{\"a\": \"\xFF\"}"), "not valid JSON"));
  CHECK(contains(error_of(""), "not valid JSON"));
}

TEST_CASE("tokenizer.json: a damaged file is refused or usable, and never causes a crash") {
  std::string const texts[] = {small_file().dump(), sentencepiece_file().dump()};
  std::mt19937 random(99);
  std::string const alphabet = "{}[]\":,0123456789-.eE \\u\x01\xC3\xFFnulltruefalse";
  int refused = 0;
  for (int round = 0; round < 800; ++round) {
    auto damaged = texts[round % 2];
    for (auto n = 1 + random() % 4; n > 0; --n) {
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
      mpt::tokenizer const source({.json = damaged, .config = {}, .source = {}});
      (void)source.decode(source.encode("The dog doesn't <|endoftext|> \u4E2D \x80 caf\u00E9  "));
    } catch (parallel::error const& problem) {
      ++refused;
      if (!std::string_view(problem.what()).starts_with("tokenizer.json: "))
        FAIL("an error without place: ", problem.what());
    }
  }
  CHECK(refused > 400);
}

TEST_CASE("tokenizer.json: random values in random fields never cause a crash") {
  std::mt19937 random(100);
  std::vector<json> const values = {nullptr,
                                    true,
                                    0,
                                    -1,
                                    289,
                                    1e300,
                                    "a b",
                                    "\u0120the",
                                    "",
                                    json::array(),
                                    json::object(),
                                    json::array({"a", "b"}),
                                    18446744073709551615U,
                                    "NFC",
                                    "BPE"};
  for (int round = 0; round < 1200; ++round) {
    auto file = round % 2 == 0 ? small_file() : sentencepiece_file();
    auto* value = &file;
    while (value->is_structured() && !value->empty() && (value == &file || random() % 4 != 0)) {
      auto child = value->begin();
      std::advance(child, static_cast<std::ptrdiff_t>(random() % value->size()));
      value = &*child;
    }
    *value = values[random() % values.size()];
    try {
      mpt::tokenizer const source({.json = file.dump(), .config = {}, .source = {}});
      (void)source.decode(source.encode("The dog doesn't <|endoftext|> \u4E2D \x80 caf\u00E9  "));
    } catch (parallel::error const&) {
    }
  }
}

}  // namespace tokenizer_json_test
