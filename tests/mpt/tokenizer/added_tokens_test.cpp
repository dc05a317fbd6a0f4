#include <doctest/doctest.h>

#include <mpt/tokenizer/added_tokens.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace added_tokens_test {

std::vector<std::string> split(mpt::added_token_matcher const& matcher, std::string_view text) {
  std::vector<std::string> out;
  matcher.split(
      text, [&](std::string_view piece) { out.push_back("'" + std::string(piece) + "'"); },
      [&](int id) { out.push_back(std::to_string(id)); });
  return out;
}

using parts = std::vector<std::string>;

TEST_CASE("added tokens: the leftmost, then longest token is found, without overlap") {
  mpt::added_token_matcher matcher;
  CHECK(matcher.empty());
  CHECK(split(matcher, "abc") == parts{"'abc'"});
  matcher.insert("ab", 1, {});
  matcher.insert("abcd", 2, {});
  matcher.insert("bcde", 3, {});
  matcher.insert("ab", 4, {});  // a spelling that is already in use
  CHECK(split(matcher, "abcde") == parts{"2", "'e'"});
  CHECK(split(matcher, "abcab") == parts{"1", "'c'", "1"});
  CHECK(split(matcher, "xbcdeab") == parts{"'x'", "3", "1"});
  CHECK(split(matcher, "abc") == parts{"1", "'c'"});
  CHECK(split(matcher, "").empty());
}

TEST_CASE("added tokens: runs of spaces are cut into the longest tokens from the left") {
  mpt::added_token_matcher matcher;
  for (int n = 2; n <= 4; ++n) matcher.insert(std::string(static_cast<std::size_t>(n), ' '), n, {});
  CHECK(split(matcher, "a          b") == parts{"'a'", "4", "4", "2", "'b'"});
  CHECK(split(matcher, "a         b") == parts{"'a'", "4", "4", "' b'"});
}

TEST_CASE("added tokens: stripping takes white space unless an earlier token has taken it") {
  mpt::added_token_matcher matcher;
  matcher.insert("<L>", 1, {.strip_left = true});
  matcher.insert("<R>", 2, {.strip_right = true});
  CHECK(split(matcher, "a \u3000<L> b") == parts{"'a'", "1", "' b'"});
  CHECK(split(matcher, "a <R>\u2003\n b") == parts{"'a '", "2", "'b'"});
  CHECK(split(matcher, "<R>  <L><R>  ") == parts{"2", "1", "2"});
  CHECK(split(matcher, "\xC3\xA9 <L>") == parts{"'\xC3\xA9'", "1"});
}

TEST_CASE("added tokens: a single word is not found next to a character of a word") {
  mpt::added_token_matcher matcher;
  matcher.insert("ab", 1, {.whole_word = true});
  matcher.insert("<S>", 2, {.strip_left = true, .strip_right = true, .whole_word = true});
  CHECK(split(matcher, "ab ab, ab") == parts{"1", "' '", "1", "', '", "1"});
  CHECK(split(matcher, "abab xab ab_ ab1") == parts{"'abab xab ab_ ab1'"});
  CHECK(split(matcher, "\u00E9ab ab\u0301 \u24B6ab ab\u200D") ==
        parts{"'\u00E9ab ab\u0301 \u24B6ab ab\u200D'"});
  CHECK(split(matcher, "\u2014ab\U0001F600") == parts{"'\u2014'", "1", "'\U0001F600'"});
  CHECK(split(matcher, "x <S> x<S> <S>") == parts{"'x'", "2", "'x<S>'", "2"});
}

}  // namespace added_tokens_test
