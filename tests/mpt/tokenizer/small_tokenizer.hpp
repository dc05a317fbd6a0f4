// A tokenizer of 290 tokens, trained in memory on three sentences, for tests that need no data
// files.
//
// The reference is Hugging Face's tokenizers on the same sentences
// (tests/reference/make_tokenizer_golden.py).
#pragma once

#include <mpt/tokenizer/train_tokenizer.hpp>
#include <nlohmann/json.hpp>
#include <parallel/support/files.hpp>
#include <string>
#include <support/golden/golden.hpp>
#include <utility>
#include <vector>

namespace tokenizer_test {

/// The sentences on which the small tokenizer is trained.
inline std::vector<std::string> const& sentences() {
  static std::vector<std::string> const texts = {
      "The quick brown fox jumps over the lazy dog. The dog doesn't mind; the fox does.\n",
      "In the beginning there was the word, and the word was with the weaver.  She'd woven 1234 "
      "threads, then 1235 more.\n",
      "Na\xC3\xAFve caf\xC3\xA9s serve cr\xC3\xA8me br\xC3\xBBl\xC3\xA9"
      "e; the caf\xC3\xA9 isn't "
      "na\xC3\xAFve.\n\n    indented    text\n"};
  return texts;
}

inline mpt::tokenizer small_tokenizer() {
  return mpt::train_tokenizer(sentences(), {.vocab_size = 290});
}

/// The small tokenizer after `change(json&)` of its tokenizer.json.
template <class Change>
mpt::tokenizer changed_tokenizer(Change&& change) {
  auto json = nlohmann::json::parse(small_tokenizer().files().json);
  change(json);
  return mpt::tokenizer({.json = json.dump(), .config = {}, .source = {}});
}

/// An entry of added_tokens.
inline nlohmann::json added(int id, std::string const& content, bool normalized) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", false}};
}

using test::contains;
using test::message_of;

/// What the reference makes of the sentences: the "merges" that it learns, and the "ids" of texts
/// by variants of the small tokenizer (see tokenizer_test.cpp).
inline nlohmann::json reference() {
  return nlohmann::json::parse(test::read_all(test::golden_folder() / "small_tokenizer.json"));
}

}  // namespace tokenizer_test
