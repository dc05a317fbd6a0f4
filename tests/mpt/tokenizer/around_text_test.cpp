#include <doctest/doctest.h>

#include <mpt/tokenizer/around_text.hpp>

#include "mpt/tokenizer/small_tokenizer.hpp"

namespace around_text_test {

using nlohmann::json;
using tokenizer_test::changed_tokenizer;

mpt::around_text around(json const& processor) {
  return mpt::read_around_text(changed_tokenizer([&](json& file) {
    file["added_tokens"].push_back(tokenizer_test::added(290, "<begin>", false));
    file["added_tokens"].push_back(tokenizer_test::added(291, "<end>", false));
    file["post_processor"] = processor;
  }));
}

json special(char const* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
json const text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
json const bytes = {{"type", "ByteLevel"}};

TEST_CASE("a template's tokens before and after the text are found, within a sequence too") {
  using ids = std::vector<std::int32_t>;
  json const both = {{"type", "TemplateProcessing"},
                     {"single", {special("<begin>"), text, special("<end>")}}};
  for (auto const& found :
       {around(both), around({{"type", "Sequence"}, {"processors", {bytes, both}}})}) {
    CHECK(found.before == ids{290});
    CHECK(found.after == ids{291});
  }
  CHECK(around(bytes).before.empty());
  CHECK(around(nullptr).after.empty());
}

TEST_CASE("a text is encoded between what is around it") {
  auto const words = tokenizer_test::small_tokenizer();
  auto const inner = words.encode("abc");
  std::vector<std::int32_t> expected{5, 6};
  expected.insert(expected.end(), inner.begin(), inner.end());
  expected.push_back(7);
  CHECK(mpt::encode_with({{5, 6}, {7}}, words, "abc") == expected);
  CHECK(mpt::encode_with({}, words, "abc") == inner);
}

TEST_CASE("what is not understood is refused") {
  auto const error = [](json const& processor) {
    return tokenizer_test::message_of([&] { static_cast<void>(around(processor)); });
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

}  // namespace around_text_test
