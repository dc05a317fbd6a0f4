#include <doctest/doctest.h>

#include <mpt/tokenizer/auto_tokenizer.hpp>
#include <mpt/tokenizer/text_affixes.hpp>

#include "mpt/tokenizer/small_tokenizer.hpp"

namespace auto_tokenizer_test {

using nlohmann::json;
using tokenizer_test::message_of;

/// The small tokenizer, of ids below 290, with other files next to it.
mpt::tokenizer_files small_files(std::string config, std::string added_tokens = {}) {
  return {.json = tokenizer_test::small_tokenizer().files().json,
          .config = std::move(config),
          .source = {},
          .added_tokens = std::move(added_tokens)};
}

TEST_CASE("auto tokenizer: folders whose files disagree give the ids of transformers 4.57.6") {
  auto const golden = json::parse(test::read_all(test::golden_folder() / "tokenizer_folders.json"));
  for (auto const& entry : golden["cases"].items()) {
    auto const& folder = entry.value();
    CAPTURE(entry.key());
    auto file = golden["bases"][folder["base"].get<std::string>()];
    file.update(folder["tokenizer"]);
    test::temporary_folder const files;
    test::write_all(files / "tokenizer.json", file.dump());
    for (auto const& [key, name] : {std::pair("config", "tokenizer_config.json"),
                                    {"special_tokens", "special_tokens_map.json"},
                                    {"added_tokens", "added_tokens.json"},
                                    {"model", "config.json"}})
      if (folder.contains(key)) test::write_all(files / name, folder[key].dump());
    auto const tokenizer = mpt::tokenizer::load(files.path());
    CHECK(tokenizer.size() == folder["size"]);
    auto const affixes = mpt::read_text_affixes(tokenizer);
    for (auto const& text : folder["texts"]) {
      CAPTURE(text.dump());
      auto const ids = mpt::encode_with_affixes(affixes, tokenizer, text[0].get<std::string>());
      CHECK(json(ids) == text[1]);
      CHECK(tokenizer.decode(ids) == text[2]);
      CHECK(tokenizer.decode(ids, mpt::special_tokens::skip) == text[3]);
    }
  }
}

TEST_CASE("auto tokenizer: files of wrong form are refused in one sentence") {
  auto const error = [](std::string const& config, std::string const& added_tokens = {}) {
    return message_of([&] { (void)mpt::tokenizer(small_files(config, added_tokens)); });
  };
  std::string const fast = R"({"tokenizer_class": "PreTrainedTokenizerFast", )";
  CHECK(
      error(fast + R"("added_tokens_decoder": {"300": {"content": "<x>"}}})") ==
      "tokenizer_config.json: added_tokens_decoder: the id of \"<x>\", which tokenizer.json "
      "lacks, is 300, but Hugging Face's tokenizers would make it 290: new tokens follow those of "
      "tokenizer.json without gaps");
  CHECK(error("", R"({"a\nb": 291})") ==
        "added_tokens.json: the id of \"a\nb\", which tokenizer.json lacks, is 291, but Hugging "
        "Face's tokenizers would make it 290: new tokens follow those of tokenizer.json without "
        "gaps");
  CHECK(error("", R"({"<x>": "290"})") ==
        "added_tokens.json: the id of \"<x>\" must be a whole number");
  CHECK(error(fast + R"("added_tokens_decoder": {"x": {"content": "<x>"}}})") ==
        "tokenizer_config.json: added_tokens_decoder: \"x\" must be an id, a whole number");
  CHECK(error(fast + R"("added_tokens_decoder": {"290": {"content": 5}}})") ==
        "tokenizer_config.json: added_tokens_decoder: 290: must be a token: its text, or an object "
        "with its text as \"content\"");
  CHECK(error(fast + R"("added_tokens_decoder": {"290": {"content": "<x>", "lstrip": 1}}})") ==
        "tokenizer_config.json: added_tokens_decoder: 290: lstrip must be true or false");
  CHECK(
      error(fast + R"("eos_token": 5})") ==
      "tokenizer_config.json or special_tokens_map.json: eos_token: must be a token: its text, or "
      "an object with its text as \"content\"");
  CHECK(
      error(fast + R"("additional_special_tokens": "<x>"})") ==
      "tokenizer_config.json or special_tokens_map.json: additional_special_tokens must be a list "
      "of tokens");
  CHECK(error(fast + R"("add_prefix_space": "yes"})") ==
        "tokenizer_config.json: add_prefix_space must be true or false");
  CHECK(
      error(R"({"tokenizer_class": "LlamaTokenizer", "bos_token": null, "add_bos_token": true})") ==
      "tokenizer_config.json: add_bos_token is true, but its bos_token is not a token");
}

TEST_CASE("auto tokenizer: the fingerprint changes with what changes ids, and only then") {
  auto const fingerprint = [](std::string const& config) {
    return mpt::tokenizer(small_files(config)).fingerprint();
  };
  std::string const fast = R"({"tokenizer_class": "PreTrainedTokenizerFast")";
  auto const alone = fingerprint("");
  CHECK(fingerprint(fast + "}") == alone);
  CHECK(fingerprint(R"({"tokenizer_class": "GPTNeoXTokenizer", "add_bos_token": true})") == alone);
  CHECK(fingerprint(fast + R"(, "eos_token": "<|endoftext|>"})") == alone);
  auto const with_prefix = fingerprint(fast + R"(, "add_prefix_space": true})");
  CHECK(with_prefix != alone);
  CHECK(fingerprint(fast + R"(, "eos_token": "<x>"})") != alone);
  CHECK(fingerprint(fast + R"(, "eos_token": "<x>"})") !=
        fingerprint(fast + R"(, "eos_token": "<y>"})"));
}

}  // namespace auto_tokenizer_test
