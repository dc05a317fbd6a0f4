#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace split_words_test {

using words = std::vector<std::string>;

words split(std::string_view text) {
  words out;
  mpt::split_words(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

// Matches the pattern like a regular-expression engine: each alternative in order, greedy, with
// backtracking by one character at a time. It is slow and works on code points, so that it shares
// no code with the scanner.
class engine {
 public:
  explicit engine(std::u32string_view text) : text_(text) {}

  [[nodiscard]] std::size_t match(std::size_t begin) const {
    using mpt::character_class;
    for (std::u32string_view literal : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"})
      if (text_.substr(begin).starts_with(literal)) return begin + literal.size();
    for (auto const kind :
         {character_class::letter, character_class::number, character_class::other}) {
      for (std::size_t skip : {1, 0}) {  // " ?" is greedy
        if (skip == 1 && text_[begin] != U' ') continue;
        auto end = begin + skip;
        while (end < text_.size() && mpt::class_of(text_[end]) == kind) ++end;
        if (end > begin + skip) return end;
      }
    }
    auto end = begin;
    while (end < text_.size() && mpt::class_of(text_[end]) == character_class::space) ++end;
    for (auto shorter = end; shorter > begin; --shorter)  // \s+(?!\S) with backtracking
      if (shorter == text_.size() || mpt::class_of(text_[shorter]) == character_class::space)
        return shorter;
    return end;  // \s+
  }

 private:
  std::u32string_view text_;
};

TEST_CASE("split_words: a word includes one space before it, other white space is separate") {
  CHECK(split("Hello world") == words{"Hello", " world"});
  CHECK(split("a  b\n c") == words{"a", " ", " b", "\n", " c"});
  CHECK(split("a\n\nb") == words{"a", "\n", "\n", "b"});
  CHECK(split("end \n ") == words{"end", " \n "});
  CHECK(split("x\u00A0y \u3000z") == words{"x", "\u00A0", "y", " ", "\u3000", "z"});
  CHECK(split("it's she'll, they'Re 12a") ==
        words{"it", "'s", " she", "'ll", ",", " they", "'", "Re", " 12", "a"});
  CHECK(split(" 's ''d 'x") == words{" '", "s", " ''", "d", " '", "x"});
  CHECK(split("").empty());
}

TEST_CASE("split_words: the scanner equals the regular expression on random texts") {
  std::mt19937 random(7);
  std::u32string const letters =
      U"strevmldSa1\u00B2  \t\n\u0085\u00A0\u2003'',.-\u00E9\u0301\u4E2D\U0001F600 ";
  for (int round = 0; round < 20000; ++round) {
    std::u32string text;
    std::string bytes;
    for (auto length = random() % 12; text.size() < length;)
      text += letters[random() % letters.size()];
    for (char32_t c : text) mpt::utf8::append(bytes, c);
    words expected;
    for (std::size_t begin = 0; begin < text.size();) {
      auto const end = engine(text).match(begin);
      expected.emplace_back();
      for (; begin < end; ++begin) mpt::utf8::append(expected.back(), text[begin]);
    }
    if (split(bytes) != expected) FAIL("differs: \"", bytes, "\"");
  }
}

}  // namespace split_words_test
