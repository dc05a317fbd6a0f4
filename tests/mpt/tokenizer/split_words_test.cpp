#include <doctest/doctest.h>

#include <cstddef>
#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace split_words_test {

using words = std::vector<std::string>;

words split(std::string_view text, mpt::word_pattern pattern = mpt::word_pattern::gpt2) {
  words out;
  mpt::split_words(text, pattern, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

using predicate = bool (*)(char32_t);

// What a pattern repeats: characters of a set, greedily.
struct repeated {
  predicate is_member;
  std::size_t min_count;
  std::size_t max_count;
};

constexpr std::size_t no_limit = 1000;
using alternative = std::vector<repeated>;

// Matches a pattern like a regular-expression engine: each alternative in order, greedy, with
// backtracking by one character at a time. It is slow and works on code points, so that it shares
// no code with the scanner.
class engine {
 public:
  engine(std::vector<alternative> alternatives, bool ignores_case, bool contracts_after)
      : alternatives_(std::move(alternatives)),
        ignores_case_(ignores_case),
        contracts_after_(contracts_after) {}

  [[nodiscard]] std::size_t match(std::u32string_view text, std::size_t begin) const {
    if (!contracts_after_)
      if (auto const length = contraction(text, begin); length > 0) return begin + length;
    for (std::size_t i = 0; i < alternatives_.size(); ++i)
      if (auto const end = match_from(text, begin, alternatives_[i], 0); end != begin)
        return contracts_after_ && i < 2 ? end + contraction(text, end) : end;
    auto end = begin;
    while (end < text.size() && is_space(text[end])) ++end;
    for (auto shorter = end; shorter > begin; --shorter)  // \s+(?!\S) with backtracking
      if (shorter == text.size() || is_space(text[shorter])) return shorter;
    return end;  // \s+
  }

  static bool is_space(char32_t c) { return mpt::class_of(c) == mpt::character_class::space; }

 private:
  [[nodiscard]] std::size_t contraction(std::u32string_view text, std::size_t begin) const {
    std::u32string rest(text.substr(begin, 3));
    for (auto& c : rest) {
      if (ignores_case_ && c >= U'A' && c <= U'Z') c += U'a' - U'A';
      if (ignores_case_ && c == U'\u017F') c = U's';
    }
    for (std::u32string_view literal : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"})
      if (rest.starts_with(literal)) return literal.size();
    return 0;
  }

  // The end of the match of the rest of an alternative, or `begin` if there is none.
  [[nodiscard]] std::size_t match_from(std::u32string_view text, std::size_t begin,
                                       alternative const& parts, std::size_t part) const {
    if (part == parts.size()) return begin;
    std::size_t count = 0;
    while (count < parts[part].max_count && begin + count < text.size() &&
           parts[part].is_member(text[begin + count]))
      ++count;
    for (;; --count) {
      if (count < parts[part].min_count) return begin;
      auto const end = match_from(text, begin + count, parts, part + 1);
      bool const is_rest_empty = part + 1 == parts.size() || least_size(parts, part + 1) == 0;
      if (end != begin + count || is_rest_empty) return end;
      if (count == 0) return begin;
    }
  }

  [[nodiscard]] static std::size_t least_size(alternative const& parts, std::size_t part) {
    std::size_t size = 0;
    for (; part < parts.size(); ++part) size += parts[part].min_count;
    return size;
  }

  std::vector<alternative> alternatives_;
  bool ignores_case_;
  bool contracts_after_;
};

bool is_letter(char32_t c) { return mpt::class_of(c) == mpt::character_class::letter; }
bool is_number(char32_t c) { return mpt::class_of(c) == mpt::character_class::number; }
bool is_other(char32_t c) { return mpt::class_of(c) == mpt::character_class::other; }
bool is_blank(char32_t c) { return c == U' '; }
bool is_newline(char32_t c) { return c == U'\r' || c == U'\n'; }
bool is_newline_or_slash(char32_t c) { return is_newline(c) || c == U'/'; }
bool is_letter_or_mark(char32_t c) { return is_letter(c) || mpt::is_mark(c); }
bool is_neither_letter_nor_mark(char32_t c) { return is_other(c) && !mpt::is_mark(c); }
bool may_precede_letters(char32_t c) { return !is_letter(c) && !is_number(c) && !is_newline(c); }
bool is_not_small(char32_t c) {
  return mpt::case_of(c) == mpt::letter_case::upper ||
         mpt::case_of(c) == mpt::letter_case::caseless;
}
bool is_not_capital(char32_t c) {
  return mpt::case_of(c) == mpt::letter_case::lower ||
         mpt::case_of(c) == mpt::letter_case::caseless;
}

engine engine_of(mpt::word_pattern pattern) {
  repeated const blank{is_blank, 0, 1};
  repeated const preceding{may_precede_letters, 0, 1};
  alternative const lines{{engine::is_space, 0, no_limit}, {is_newline, 1, no_limit}};
  auto const other_characters = [&](predicate is_member, predicate closes) {
    return alternative{blank, {is_member, 1, no_limit}, {closes, 0, no_limit}};
  };
  auto const llama3 = [&](predicate letters, predicate other, std::size_t digits) {
    return engine({{preceding, {letters, 1, no_limit}},
                   {{is_number, 1, digits}},
                   other_characters(other, is_newline),
                   lines},
                  true, false);
  };
  auto const gpt4o = [&](std::size_t digits, bool ignores_case, bool contracts) {
    return engine({{preceding, {is_not_small, 0, no_limit}, {is_not_capital, 1, no_limit}},
                   {preceding, {is_not_small, 1, no_limit}, {is_not_capital, 0, no_limit}},
                   {{is_number, 1, digits}},
                   other_characters(is_other, is_newline_or_slash),
                   lines},
                  ignores_case, contracts);
  };
  switch (pattern) {
    case mpt::word_pattern::llama3: return llama3(is_letter, is_other, 3);
    case mpt::word_pattern::qwen2: return llama3(is_letter, is_other, 1);
    case mpt::word_pattern::qwen3_5:
      return llama3(is_letter_or_mark, is_neither_letter_nor_mark, 1);
    case mpt::word_pattern::gpt4o: return gpt4o(3, true, true);
    default: break;
  }
  return engine({{blank, {is_letter, 1, no_limit}},
                 {blank, {is_number, 1, no_limit}},
                 {blank, {is_other, 1, no_limit}}},
                false, false);
}

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

TEST_CASE("split_words: a pattern is found by its exact text, and by no other") {
  using mpt::word_pattern;
  for (auto const pattern : {word_pattern::gpt2, word_pattern::llama3, word_pattern::qwen2,
                             word_pattern::qwen3_5, word_pattern::gpt4o, word_pattern::tekken}) {
    std::string const text(mpt::regular_expression_of(pattern));
    CHECK(mpt::find_word_pattern(text) == pattern);
    CHECK_FALSE(mpt::find_word_pattern(text + "|x").has_value());
  }
  CHECK_FALSE(mpt::find_word_pattern("").has_value());
}

TEST_CASE("split_words: patterns differ in numbers, contractions, marks and capitals") {
  using mpt::word_pattern;
  CHECK(split("I'LL 12345\n\n x", word_pattern::llama3) ==
        words{"I", "'LL", " ", "123", "45", "\n\n", " x"});
  CHECK(split("it'\u017F a12.\n\tb", word_pattern::qwen2) ==
        words{"it", "'\u017F", " a", "1", "2", ".\n", "\tb"});
  CHECK(split("xe\u0301y", word_pattern::qwen2) == words{"xe", "\u0301y"});
  CHECK(split("xe\u0301y", word_pattern::qwen3_5) == words{"xe\u0301y"});
  CHECK(split("HelloWORLD'S iPhone", word_pattern::gpt4o) ==
        words{"Hello", "WORLD'S", " i", "Phone"});
  CHECK(split("Hello'S //\n", word_pattern::tekken) == words{"Hello", "'S", " //\n"});
}

TEST_CASE("split_words: every scanner equals its regular expression on random texts") {
  using mpt::word_pattern;
  std::mt19937 random(7);
  std::u32string const letters =
      U"strevmldSa1\u00B2  \t\n\u0085\u00A0\u2003'',./-\u00E9\u0301\u4E2D\U0001F600 "
      U"\u017F\u01C5TAE\r";
  for (auto const pattern : {word_pattern::gpt2, word_pattern::llama3, word_pattern::qwen2,
                             word_pattern::qwen3_5, word_pattern::gpt4o}) {
    auto const reference = engine_of(pattern);
    for (int round = 0; round < 20000; ++round) {
      std::u32string text;
      std::string bytes;
      for (auto length = random() % 12; text.size() < length;)
        text += letters[random() % letters.size()];
      for (char32_t c : text) mpt::utf8::append(bytes, c);
      words expected;
      for (std::size_t begin = 0; begin < text.size();) {
        auto const end = reference.match(text, begin);
        expected.emplace_back();
        for (; begin < end; ++begin) mpt::utf8::append(expected.back(), text[begin]);
      }
      if (split(bytes, pattern) != expected)
        FAIL("pattern ", static_cast<int>(pattern), " differs: \"", bytes, "\"");
    }
  }
}

}  // namespace split_words_test
