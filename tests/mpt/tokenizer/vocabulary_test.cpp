#include <doctest/doctest.h>

#include <mpt/tokenizer/vocabulary.hpp>

namespace vocabulary_test {

using mpt::vocabulary;

TEST_CASE("vocabulary: spellings and ids are unique, and ids may have gaps") {
  vocabulary tokens;
  CHECK(tokens.insert("\u0120a", 2) == vocabulary::outcome::added);
  CHECK(tokens.insert("\u0120a", 3) == vocabulary::outcome::spelling_known);
  CHECK(tokens.insert("b", 2) == vocabulary::outcome::id_taken);
  CHECK(tokens.insert("b", 0) == vocabulary::outcome::added);
  CHECK(tokens.size() == 3);
  CHECK(tokens.count() == 2);
  CHECK(tokens.id_of("b") == 0);
  CHECK_FALSE(tokens.id_of("c").has_value());
  CHECK(tokens.spelling(2) == "\u0120a");
  CHECK(tokens.bytes(2) == " a");
  CHECK(tokens.contains(2));
  for (int id : {-1, 1, 3}) CHECK_FALSE(tokens.contains(id));
}

}  // namespace vocabulary_test
