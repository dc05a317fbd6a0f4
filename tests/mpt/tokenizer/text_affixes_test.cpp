#include <doctest/doctest.h>

#include <mpt/tokenizer/text_affixes.hpp>

#include "mpt/tokenizer/small_tokenizer.hpp"

namespace text_affixes_test {

using nlohmann::json;
using tokenizer_test::changed_tokenizer;

mpt::text_affixes affixes_from(json const& processor) {
  return mpt::read_text_affixes(changed_tokenizer([&](json& file) {
    file["added_tokens"].push_back(tokenizer_test::added(290, "<begin>", false));
    file["added_tokens"].push_back(tokenizer_test::added(291, "<end>", false));
    file["post_processor"] = processor;
  }));
}

json special(char const* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
json const text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
json const bytes = {{"type", "ByteLevel"}};

TEST_CASE("text affixes: the tokens of a template are found, also inside a Sequence") {
  using ids = std::vector<std::int32_t>;
  json const template_processor = {{"type", "TemplateProcessing"},
                                   {"single", {special("<begin>"), text, special("<end>")}}};
  for (auto const& found :
       {affixes_from(template_processor),
        affixes_from({{"type", "Sequence"}, {"processors", {bytes, template_processor}}})}) {
    CHECK(found.prefix == ids{290});
    CHECK(found.suffix == ids{291});
  }
  CHECK(affixes_from(bytes).prefix.empty());
  CHECK(affixes_from(nullptr).suffix.empty());
}

TEST_CASE(
    "text affixes: add_bos_token counts for Llama's and GPT-NeoX's classes, the template for "
    "others") {
  using ids = std::vector<std::int32_t>;
  auto const prefix_of = [](json const& processor, std::string const& config) {
    auto files = changed_tokenizer([&](json& file) {
                   file["added_tokens"].push_back(tokenizer_test::added(290, "<begin>", false));
                   file["post_processor"] = processor;
                 }).files();
    files.config = config;
    return mpt::read_text_affixes(mpt::tokenizer(files)).prefix;
  };
  json const begins = {{"type", "TemplateProcessing"}, {"single", {special("<begin>"), text}}};
  std::string const llama = R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<begin>", )";
  std::string const neox = R"({"tokenizer_class": "GPTNeoXTokenizer", "bos_token": "<begin>", )";
  std::string const fast = R"({"tokenizer_class": "PreTrainedTokenizerFast", )";
  CHECK(prefix_of(begins, fast + R"("add_bos_token": false})") == ids{290});
  CHECK(prefix_of(nullptr, fast + R"("bos_token": "<begin>", "add_bos_token": true})").empty());
  CHECK(prefix_of(begins, llama + R"("add_bos_token": false})").empty());
  CHECK(prefix_of(nullptr, llama + R"("add_bos_token": true})") == ids{290});
  std::string const nameless = R"({"tokenizer_class": "LlamaTokenizer", "bos_token": null})";
  CHECK(prefix_of(begins, nameless) == ids{290});
  CHECK(prefix_of(nullptr, neox + R"("add_bos_token": true})") == ids{290});
  CHECK(prefix_of(begins, neox + R"("add_bos_token": false})").empty());
}

TEST_CASE("text affixes: encode_with_affixes puts the ids of a text between prefix and suffix") {
  auto const words = tokenizer_test::small_tokenizer();
  auto const inner = words.encode("abc");
  std::vector<std::int32_t> expected{5, 6};
  expected.insert(expected.end(), inner.begin(), inner.end());
  expected.push_back(7);
  CHECK(mpt::encode_with_affixes({{5, 6}, {7}}, words, "abc") == expected);
  CHECK(mpt::encode_with_affixes({}, words, "abc") == inner);
}

TEST_CASE("text affixes: post-processors of unknown form are refused") {
  auto const error = [](json const& processor) {
    return tokenizer_test::message_of([&] { static_cast<void>(affixes_from(processor)); });
  };
  CHECK(error({{"type", "BertProcessing"}}) ==
        "tokenizer.json: post_processor: the type \"BertProcessing\" is not supported; expected "
        "ByteLevel, TemplateProcessing or a Sequence of them");
  CHECK(error({{"type", "TemplateProcessing"}, {"single", {special("<other>"), text}}}) ==
        "tokenizer.json: post_processor: TemplateProcessing names the token \"<other>\", which the "
        "vocabulary lacks");
  CHECK(error({{"type", "TemplateProcessing"}}) ==
        "tokenizer.json: post_processor: TemplateProcessing lacks single, a list");
  CHECK(error({{"type", "TemplateProcessing"}, {"single", json::array({5})}}) ==
        "tokenizer.json: post_processor: TemplateProcessing.single holds a piece that is neither "
        "Sequence nor SpecialToken");
  CHECK(error(5).find("the type \"\" is not supported") != std::string::npos);
}

}  // namespace text_affixes_test
