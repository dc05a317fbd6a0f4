#include <doctest/doctest.h>

#include <cstdint>
#include <mpt/tokenizer/bpe.hpp>
#include <random>
#include <vector>

namespace bpe_test {

using id_list = std::vector<std::int32_t>;

// Sennrich's definition, implemented literally.
id_list naive(mpt::merge_table const& merges, id_list ids) {
  for (;;) {
    mpt::merge const* best = nullptr;
    std::size_t position = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      auto const* const found = merges.find(ids[i], ids[i + 1]);
      if (found != nullptr && (best == nullptr || found->rank < best->rank)) {
        best = found;
        position = i;
      }
    }
    if (best == nullptr) return ids;
    ids[position] = best->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(position) + 1);
  }
}

TEST_CASE("merge table: inserted merges are found, and a pair is inserted only once") {
  mpt::merge_table table(3);
  CHECK(table.insert(0, 0, {0, 5}));
  CHECK(table.insert(0, 1, {1, 6}));
  CHECK(table.insert(1, 0, {2, 7}));
  CHECK_FALSE(table.insert(0, 1, {3, 8}));
  REQUIRE(table.find(0, 1) != nullptr);
  CHECK(table.find(0, 1)->id == 6);
  CHECK(table.find(1, 0)->rank == 2);
  CHECK(table.find(1, 1) == nullptr);
  CHECK(mpt::merge_table().find(0, 0) == nullptr);
}

TEST_CASE("BPE: scan and heap equal the definition on random merges and words") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::int32_t const letters = 2 + static_cast<std::int32_t>(random() % 4);
    mpt::merge_table merges(60);
    auto next = letters;
    for (std::int32_t rank = 0; rank < 60; ++rank) {
      auto const pick = [&] {
        return static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      };
      auto const left = pick();
      if (merges.insert(left, pick(), {rank, next})) ++next;
    }
    for (std::size_t length : {0, 1, 2, 3, 7, 20, 48, 49, 200}) {
      id_list word;
      while (word.size() < length)
        word.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(letters)));
      auto const expected = naive(merges, word);
      auto merged = word;
      mpt::merge_word(merges, merged);
      CHECK(merged == expected);
      auto by_heap = word;
      mpt::detail::merge_by_heap(merges, by_heap);
      CHECK(by_heap == expected);
    }
  }
}

TEST_CASE("BPE: a long word of one letter is merged from the left") {
  mpt::merge_table merges(2);
  merges.insert(0, 0, {0, 1});
  merges.insert(1, 1, {1, 2});
  id_list word(100003, 0);
  mpt::merge_word(merges, word);
  id_list expected(25000, 2);
  expected.push_back(1);
  expected.push_back(0);
  CHECK(word == expected);
}

}  // namespace bpe_test
