#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/gguf_model.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <nlohmann/json.hpp>

namespace gguf_tokenizer_test {
namespace hf = mpt::hf;
using test::contains;
using tokenizer_test::changed_tokenizer;
using tokenizer_test::message_of;
using texts = std::vector<std::string>;
using numbers = std::vector<std::int32_t>;

bool has(hf::gguf_tokenizer const& tokenizer, std::string const& name) {
  return std::ranges::find(tokenizer.fields, "tokenizer." + name, &hf::gguf_field::name) !=
         tokenizer.fields.end();
}

template <class T>
T value_of(hf::gguf_tokenizer const& tokenizer, std::string const& name) {
  auto const found =
      std::ranges::find(tokenizer.fields, "tokenizer." + name, &hf::gguf_field::name);
  REQUIRE_MESSAGE(found != tokenizer.fields.end(), name);
  REQUIRE(std::holds_alternative<T>(found->value));
  return std::get<T>(found->value);
}

/// A tokenizer of SentencePiece's kind with the words "▁ab" and "▁abab".
nlohmann::json sentencepiece() {
  nlohmann::json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  std::int32_t id = 3;
  for (int byte = 0; byte < 256; ++byte)
    vocab[mpt::metaspace::byte_token(static_cast<unsigned char>(byte))] = id++;
  for (char const* const text : {"▁", "a", "b", "ab", "▁ab", "abab", "▁abab"}) vocab[text] = id++;
  nlohmann::json added = nlohmann::json::array();
  for (int special = 0; special < 3; ++special)
    added.push_back(tokenizer_test::added(
        special,
        std::vector<std::string>{"<unk>", "<s>", "</s>"}[static_cast<std::size_t>(special)],
        false));
  for (auto& token : added) token["special"] = true;
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"a b", "▁ ab", "ab ab", "▁ abab", "▁ab ab"}}}}};
}

hf::gguf_tokenizer fields_of(nlohmann::json const& json) {
  mpt::tokenizer const tokenizer(
      {.json = json.dump(), .config = R"({"eos_token": "</s>"})", .source = {}});
  return hf::gguf_tokenizer_of(tokenizer, tokenizer.size(), {});
}

TEST_CASE("gguf tokenizer: byte-level BPE has its tokens, merges and the name of its split") {
  auto const tokenizer = tokenizer_test::small_tokenizer();
  auto const out = hf::gguf_tokenizer_of(tokenizer, 300, {});
  CHECK(value_of<std::string>(out, "ggml.model") == "gpt2");
  CHECK(value_of<std::string>(out, "ggml.pre") == "gpt-2");
  auto const tokens = value_of<texts>(out, "ggml.tokens");
  REQUIRE(tokens.size() == 300);
  CHECK(tokens[0] == "<|endoftext|>");
  CHECK(tokens[259] == "\u0120the");
  CHECK(tokens[290] == "[PAD290]");
  auto const types = value_of<numbers>(out, "ggml.token_type");
  CHECK(types[0] == 3);
  CHECK(types[259] == 1);
  CHECK(types[299] == 5);
  auto const merges = value_of<texts>(out, "ggml.merges");
  CHECK(nlohmann::json(merges) == tokenizer_test::reference()["merges"]);
  CHECK(value_of<std::uint32_t>(out, "ggml.eos_token_id") == 0);
  CHECK(value_of<std::uint32_t>(out, "ggml.bos_token_id") == 0);
  CHECK_FALSE(value_of<bool>(out, "ggml.add_bos_token"));
  CHECK_FALSE(value_of<bool>(out, "ggml.add_eos_token"));
  CHECK(out.notes.empty());
  CHECK_FALSE(has(out, "ggml.scores"));
}

TEST_CASE("gguf tokenizer: the tokens that end a model's texts are the model's") {
  auto const tokenizer = tokenizer_test::small_tokenizer();
  auto const ends = [&](std::vector<std::int64_t> const& tokens) {
    return hf::gguf_tokenizer_of(tokenizer, 290, tokens);
  };
  CHECK(value_of<std::uint32_t>(ends({7}), "ggml.eos_token_id") == 7);
  CHECK_FALSE(has(ends({7}), "ggml.eot_token_id"));
  auto const two = ends({9, 0, 1000});
  CHECK(value_of<std::uint32_t>(two, "ggml.eos_token_id") == 0);
  CHECK(value_of<std::uint32_t>(two, "ggml.eot_token_id") == 9);
}

TEST_CASE("gguf tokenizer: added tokens are looked for in text, and [PAD] names stay distinct") {
  auto const tokenizer = changed_tokenizer([](nlohmann::json& json) {
    json["added_tokens"].push_back(tokenizer_test::added(290, "[PAD291]", false));
  });
  auto const out = hf::gguf_tokenizer_of(tokenizer, 292, {});
  auto const tokens = value_of<texts>(out, "ggml.tokens");
  CHECK(tokens[290] == "[PAD291]");
  CHECK(tokens[291] == "[PAD291]]");
  CHECK(value_of<numbers>(out, "ggml.token_type")[290] == 4);
}

TEST_CASE("gguf tokenizer: what llama.cpp does otherwise is refused or noted") {
  auto const problem = [](auto const& change) {
    auto const tokenizer = changed_tokenizer(change);
    return message_of([&] { static_cast<void>(hf::gguf_tokenizer_of(tokenizer, 400, {})); });
  };
  CHECK(contains(problem([](auto& json) { json["pre_tokenizer"]["add_prefix_space"] = true; }),
                 "puts a space in front of a text"));
  CHECK(contains(problem([](auto& json) { json["pre_tokenizer"]["use_regex"] = false; }),
                 "does not split text into words"));
  // every token is what its merges make, so that whole words need no rule
  CHECK(problem([](auto& json) { json["model"]["ignore_merges"] = true; }) == "");
  CHECK(contains(problem([](auto& json) {
                   json["model"]["ignore_merges"] = true;
                   json["model"]["vocab"]["zqzq"] = 290;
                 }),
                 "its ignore_merges is true, but llama.cpp's gpt-2 has it the other way"));
  auto const nfc = changed_tokenizer([](auto& json) { json["normalizer"] = {{"type", "NFC"}}; });
  auto const notes = hf::gguf_tokenizer_of(nfc, 290, {}).notes;
  REQUIRE(notes.size() == 1);
  CHECK(contains(notes.front(), "NFC"));
  auto const small = tokenizer_test::small_tokenizer();
  CHECK(contains(message_of([&] { static_cast<void>(hf::gguf_tokenizer_of(small, 289, {})); }),
                 "has ids up to 289"));
}

TEST_CASE("gguf tokenizer: SentencePiece's merges become scores, the first merge the highest") {
  auto const out = fields_of(sentencepiece());
  CHECK(value_of<std::string>(out, "ggml.model") == "llama");
  CHECK(value_of<bool>(out, "ggml.add_space_prefix"));
  CHECK(value_of<bool>(out, "ggml.add_bos_token"));
  CHECK(value_of<std::uint32_t>(out, "ggml.bos_token_id") == 1);
  CHECK(value_of<std::uint32_t>(out, "ggml.eos_token_id") == 2);
  CHECK(value_of<std::uint32_t>(out, "ggml.unknown_token_id") == 0);
  auto const types = value_of<numbers>(out, "ggml.token_type");
  CHECK(std::vector<std::int32_t>(types.begin(), types.begin() + 4) == numbers{2, 3, 3, 6});
  CHECK(types.back() == 1);
  auto const scores = value_of<std::vector<float>>(out, "ggml.scores");
  REQUIRE(scores.size() == types.size());
  float previous = 1;
  for (std::size_t i = scores.size() - 4; i < scores.size(); ++i) {  // "ab", "▁ab", "abab", ...
    CHECK(scores[i] < previous);
    previous = scores[i];
  }
  CHECK_FALSE(has(out, "ggml.merges"));
}

TEST_CASE("gguf tokenizer: merges that scores cannot stand for are refused") {
  auto apart = sentencepiece();
  apart["model"]["merges"] = {"a b", "▁ ab", "▁ab ab", "ab ab", "▁ abab"};
  CHECK(contains(message_of([&] { static_cast<void>(fields_of(apart)); }),
                 "do not follow each other"));
  auto missing = sentencepiece();
  missing["model"]["merges"].erase(4);
  CHECK(contains(message_of([&] { static_cast<void>(fields_of(missing)); }),
                 "but llama.cpp would join them"));
}

}  // namespace gguf_tokenizer_test
