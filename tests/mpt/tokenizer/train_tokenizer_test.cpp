#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/tokenizer/train_tokenizer.hpp>

namespace train_tokenizer_test {

using nlohmann::json;
using tokenizer_test::contains;
using tokenizer_test::message_of;
using tokenizer_test::sentences;
using tokenizer_test::small_tokenizer;

std::vector<std::string> merges_of(mpt::tokenizer const& source) {
  return json::parse(source.files().json)["model"]["merges"].get<std::vector<std::string>>();
}

TEST_CASE("train_tokenizer: merges equal those that the reference learns") {
  auto const expected = tokenizer_test::reference()["merges"];
  CHECK(merges_of(small_tokenizer()) == expected.get<std::vector<std::string>>());
}

TEST_CASE("train_tokenizer: ids are special tokens, bytes in order of spelling, then merges") {
  auto const source =
      mpt::train_tokenizer(sentences(), {.vocab_size = 270, .special_tokens = {"<a>", "<b>"}});
  CHECK(source.size() == 270);
  CHECK(source.id_of("<a>") == 0);
  CHECK(source.id_of("<b>") == 1);
  CHECK(source.id_of("!") == 2);
  CHECK(source.id_of("\u0143") == 257);
  CHECK(source.id_of("he") == 258);
  CHECK(source.is_special(1));
  CHECK(source.eos_id() == 0);  // the first special token ends documents
}

TEST_CASE("train_tokenizer: neither the order of the texts nor repetition changes the result") {
  auto texts = sentences();
  auto const first = small_tokenizer().files().json;
  std::reverse(texts.begin(), texts.end());
  CHECK(mpt::train_tokenizer(texts, {.vocab_size = 290}).files().json == first);
  CHECK(small_tokenizer().files().json == first);
}

TEST_CASE("train_tokenizer: of equally frequent pairs the one with smaller ids is merged first") {
  // "ba" and "ab" occur three times each in words of two letters; a < b
  std::vector<std::string> const texts = {"ba\nba\nba\nab\nab\nab"};
  CHECK(merges_of(mpt::train_tokenizer(texts, {.vocab_size = 259})) ==
        std::vector<std::string>{"a b", "b a"});
}

TEST_CASE("train_tokenizer: pairs rarer than min_count are not merged") {
  std::vector<std::string> const texts = {"abab ab cd"};
  CHECK(merges_of(mpt::train_tokenizer(texts, {.vocab_size = 400, .min_count = 3})) ==
        std::vector<std::string>{"a b"});
  CHECK(mpt::train_tokenizer(texts, {.vocab_size = 400, .min_count = 1}).size() < 270);
}

TEST_CASE("train_tokenizer: special tokens divide the texts and are not learnt from") {
  std::vector<std::string> const plain = {"ab", "cd", "ab"};
  std::vector<std::string> const joined = {"ab<|endoftext|>cd<|endoftext|>ab"};
  mpt::train_tokenizer_options const options = {.vocab_size = 300, .min_count = 1};
  CHECK(mpt::train_tokenizer(joined, options).files().json ==
        mpt::train_tokenizer(plain, options).files().json);
}

TEST_CASE("train_tokenizer: texts without words are refused") {
  for (auto const& texts : {std::vector<std::string>{}, std::vector<std::string>{""}})
    CHECK(tokenizer_test::message_of([&] { (void)mpt::train_tokenizer(texts); }) ==
          "there is no text to learn a tokenizer from");
}

TEST_CASE("train_tokenizer: wrong options are refused with the limits") {
  auto const message = [&](mpt::train_tokenizer_options const& options) {
    return message_of([&] { (void)mpt::train_tokenizer(sentences(), options); });
  };
  CHECK(contains(message({.vocab_size = 256}), "vocab_size 256 must be between 257"));
  CHECK(contains(message({.vocab_size = -1}), "vocab_size -1"));
  CHECK(contains(message({.special_tokens = {""}}), "must be UTF-8 and not empty"));
  CHECK(contains(message({.special_tokens = {"<a>", "<a>"}}), "\"<a>\" is given twice"));
  CHECK(contains(message({.special_tokens = {"!"}}), "the spelling of a single byte"));
}

}  // namespace train_tokenizer_test

namespace learn_merges_test {

TEST_CASE("learn_merges: updated counts give the merges of counting from scratch") {
  // Words without runs of one letter, for which the reference's arithmetic is plain counting.
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<mpt::counted_word> words(30);
    for (auto& word : words) {
      word.count = 1 + static_cast<std::int64_t>(random() % 9);
      for (auto n = 1 + random() % 9; word.ids.size() < n;) {
        auto const id = static_cast<std::int32_t>(random() % 5);
        if (word.ids.empty() || word.ids.back() != id) word.ids.push_back(id);
      }
    }
    auto copy = words;
    std::vector<std::string> tokens = {"a", "b", "c", "d", "e"};
    auto const learnt = mpt::learn_merges(words, tokens, 25, 1);
    for (auto const& merge : learnt) {
      std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
      for (auto const& word : copy)
        for (std::size_t i = 1; i < word.ids.size(); ++i)
          counts[{word.ids[i - 1], word.ids[i]}] += word.count;
      auto best = counts.begin();
      for (auto it = counts.begin(); it != counts.end(); ++it)
        if (it->second > best->second) best = it;
      if (best->first.first == best->first.second) break;  // a run has formed
      REQUIRE(best->first == std::pair(merge.left, merge.right));
      for (auto& word : copy)
        for (std::size_t i = 0; i + 1 < word.ids.size(); ++i)
          if (word.ids[i] == merge.left && word.ids[i + 1] == merge.right) {
            word.ids[i] = merge.merged;
            word.ids.erase(word.ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          }
    }
  }
}

TEST_CASE("learn_merges: two pairs that spell the same token become one token") {
  // a b c: "ab" + "c" and, in words where b c was merged first, "a" + "bc"
  std::vector<mpt::counted_word> words = {
      {{1, 2}, 9}, {{0, 1, 2}, 5}, {{3, 0, 1}, 20}, {{0, 1}, 20}, {{0, 1, 2, 3}, 1}};
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  auto const merges = mpt::learn_merges(words, tokens, 100, 1);
  std::map<std::string, std::int32_t> ids;
  for (auto const& merge : merges) {
    auto const spelt = tokens[static_cast<std::size_t>(merge.left)] +
                       tokens[static_cast<std::size_t>(merge.right)];
    CHECK(tokens[static_cast<std::size_t>(merge.merged)] == spelt);
    CHECK(ids.emplace(spelt, merge.merged).first->second == merge.merged);
  }
  CHECK(ids.contains("abc"));
}

}  // namespace learn_merges_test
