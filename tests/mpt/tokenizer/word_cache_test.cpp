#include <doctest/doctest.h>

#include <cstdint>
#include <mpt/tokenizer/word_cache.hpp>
#include <string>
#include <vector>

namespace word_cache_test {

using id_list = std::vector<std::int32_t>;

id_list found(mpt::word_cache const& cache, std::string const& word) {
  auto const ids = cache.find(word);
  return {ids.begin(), ids.end()};
}

TEST_CASE("word cache: a word is found until another word takes its slot") {
  mpt::word_cache cache(1);
  CHECK(found(cache, "a").empty());
  cache.keep("a", id_list{1, 2});
  CHECK(found(cache, "a") == id_list{1, 2});
  CHECK(found(cache, "b").empty());
  cache.keep("b", id_list{3});
  CHECK(found(cache, "a").empty());
  CHECK(found(cache, "b") == id_list{3});
}

TEST_CASE("word cache: words of at most 30 bytes and 8 ids are kept") {
  mpt::word_cache cache(16);
  cache.keep(std::string(31, 'x'), id_list{1});
  CHECK(found(cache, std::string(31, 'x')).empty());
  cache.keep(std::string(30, 'x'), id_list(8, 9));
  CHECK(found(cache, std::string(30, 'x')) == id_list(8, 9));
  cache.keep("y", id_list(9, 9));
  CHECK(found(cache, "y").empty());
}

TEST_CASE("word cache: a word with NUL bytes differs from its prefix") {
  mpt::word_cache cache(1);
  cache.keep("a", id_list{1});
  CHECK(found(cache, std::string("a\0", 2)).empty());
}

TEST_CASE("word cache: a cache that changes its owner forgets all words") {
  mpt::word_cache cache(4);
  cache.belong_to(1);
  cache.keep("a", id_list{1});
  cache.belong_to(1);
  CHECK(found(cache, "a") == id_list{1});
  cache.belong_to(2);
  CHECK(found(cache, "a").empty());
}

}  // namespace word_cache_test
