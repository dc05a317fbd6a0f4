#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mpt/tokenizer/learn_merges.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

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
