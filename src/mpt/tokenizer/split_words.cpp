#include <mpt/tokenizer/split_words.hpp>

#include <mpt/ascii.hpp>
#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

struct known_pattern {
  word_pattern pattern;
  std::string_view regular_expression;
};

constexpr known_pattern known_patterns[] = {
    {word_pattern::gpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {word_pattern::llama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                           R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {word_pattern::qwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                          R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {word_pattern::qwen3_5, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                            R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {word_pattern::gpt4o,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {word_pattern::tekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

/// Whether combining marks count as letters (`[\p{L}\p{M}]`) or as other characters.
enum class marks : std::uint8_t { other, letters };

struct classified_character {
  character_class kind;
  std::size_t bytes;
};

/// The class of the character at `position`, which must be inside valid UTF-8.
[[nodiscard]] classified_character class_at(std::string_view text, std::size_t position,
                                            marks marks_are = marks::other) {
  auto const byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {detail::ascii_classes[byte], 1};
  auto const next = utf8::read(text, position);
  auto kind = class_of(next.code_point);
  if (marks_are == marks::letters && kind == character_class::other && is_mark(next.code_point))
    kind = character_class::letter;
  return {kind, next.bytes};
}

/// The end of the run of at most `longest` characters of class `kind` that begins at `position`.
[[nodiscard]] std::size_t end_of_run(std::string_view text, std::size_t position,
                                     character_class kind, marks marks_are = marks::other,
                                     std::size_t longest = std::string_view::npos) {
  for (std::size_t count = 0; position < text.size() && count < longest; ++count) {
    auto const current = class_at(text, position, marks_are);
    if (current.kind != kind) break;
    position += current.bytes;
  }
  return position;
}

/// The length of 's, 't, 're, 've, 'm, 'll or 'd at `position`, else 0.
[[nodiscard]] std::size_t contraction_at(std::string_view text, std::size_t position) {
  if (text[position] != '\'' || position + 1 == text.size()) return 0;
  char const a = text[position + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (position + 2 == text.size()) return 0;
  char const b = text[position + 2];
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/// The same for letters of either case. U+017F, the long s, is an s of another case.
[[nodiscard]] std::size_t contraction_of_any_case_at(std::string_view text, std::size_t position) {
  if (position >= text.size() || text[position] != '\'') return 0;
  auto const rest = text.substr(position);
  if (rest.starts_with("'\u017F")) return 3;
  return contraction_at(lower_case(rest.substr(0, 3)), 0);
}

[[nodiscard]] bool is_newline(char c) { return c == '\r' || c == '\n'; }

/// The end of white space that begins at `position` and is not followed by a word to which its last
/// character belongs: `\s+(?!\S)|\s+`.
[[nodiscard]] std::size_t end_of_white_space(std::string_view text, std::size_t position) {
  std::size_t last = position;  // start of the last white-space character of the run
  std::size_t end = position;
  while (end < text.size()) {
    auto const next = class_at(text, end);
    if (next.kind != character_class::space) return last == position ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

/// The same, but white space with newlines ends after the last of them: `\s*[\r\n]+|...`.
[[nodiscard]] std::size_t end_of_lines(std::string_view text, std::size_t position) {
  auto const end = end_of_run(text, position, character_class::space);
  for (auto last = end; last > position; --last)
    if (is_newline(text[last - 1])) return last;
  return end_of_white_space(text, position);
}

/// The end of the word at `position` by GPT-2's pattern.
[[nodiscard]] std::size_t end_of_gpt2_word(std::string_view text, std::size_t position) {
  if (auto const length = contraction_at(text, position); length != 0) return position + length;
  auto const first = class_at(text, position);
  if (first.kind != character_class::space)
    return end_of_run(text, position + first.bytes, first.kind);
  if (text[position] == ' ' && position + 1 < text.size()) {
    auto const next = class_at(text, position + 1);
    if (next.kind != character_class::space)
      return end_of_run(text, position + 1 + next.bytes, next.kind);
  }
  return end_of_white_space(text, position);
}

/// The end of a word that has no letters: a number of at most `longest_number` digits, other
/// characters with one space before them and any of `closing` after them, or white space.
[[nodiscard]] std::size_t end_without_letters(std::string_view text, std::size_t position,
                                              std::size_t longest_number, std::string_view closing,
                                              marks marks_are) {
  auto const first = class_at(text, position, marks_are);
  if (first.kind == character_class::number)
    return end_of_run(text, position, character_class::number, marks_are, longest_number);
  auto const begin = text[position] == ' ' ? position + 1 : position;
  auto end = end_of_run(text, begin, character_class::other, marks_are);
  if (end == begin) return end_of_lines(text, position);
  while (end < text.size() && closing.find(text[end]) != std::string_view::npos) ++end;
  return end;
}

/// The end of the word at `position` by Llama 3's or Qwen's pattern.
[[nodiscard]] std::size_t end_of_llama3_word(std::string_view text, std::size_t position,
                                             std::size_t longest_number, marks marks_are) {
  if (auto const length = contraction_of_any_case_at(text, position); length != 0)
    return position + length;
  auto const first = class_at(text, position, marks_are);
  auto begin = position;  // of the letters
  if (first.kind != character_class::letter && first.kind != character_class::number &&
      !is_newline(text[position]))
    begin += first.bytes;
  if (auto const end = end_of_run(text, begin, character_class::letter, marks_are); end != begin)
    return end;
  return end_without_letters(text, position, longest_number, "\r\n", marks_are);
}

/// The end of the letters at `begin`, capitals before small letters, or `begin` if there are none:
/// U*l+|U+l* for the letters and marks U that are not small and l that are not capitals.
[[nodiscard]] std::size_t end_of_cased_letters(std::string_view text, std::size_t begin) {
  auto end = begin;
  auto last_caseless_end = begin;  // end of the last character that is in U and in l
  letter_case next_case = letter_case::none;
  while (end < text.size()) {
    auto const next = utf8::read(text, end);
    next_case = case_of(next.code_point);
    if (next_case != letter_case::upper && next_case != letter_case::caseless) break;
    end += next.bytes;
    if (next_case == letter_case::caseless) last_caseless_end = end;
  }
  if (end == text.size() || next_case != letter_case::lower)
    return last_caseless_end != begin ? last_caseless_end : end;
  while (end < text.size()) {
    auto const next = utf8::read(text, end);
    next_case = case_of(next.code_point);
    if (next_case != letter_case::lower && next_case != letter_case::caseless) break;
    end += next.bytes;
  }
  return end;
}

/// The end of the letters at `begin` if they hold a small or caseless one, else `begin`.
[[nodiscard]] std::size_t end_of_small_letters(std::string_view text, std::size_t begin) {
  for (auto end = begin; end < text.size();) {
    auto const next = utf8::read(text, end);
    auto const next_case = case_of(next.code_point);
    if (next_case == letter_case::lower || next_case == letter_case::caseless)
      return end_of_cased_letters(text, begin);
    if (next_case != letter_case::upper) break;
    end += next.bytes;
  }
  return begin;
}

/// The end of the word at `position` by GPT-4o's pattern, or by Tekken's without contractions.
[[nodiscard]] std::size_t end_of_gpt4o_word(std::string_view text, std::size_t position,
                                            std::size_t longest_number, bool contractions) {
  auto const first = class_at(text, position);
  bool const may_precede = first.kind != character_class::letter &&
                           first.kind != character_class::number && !is_newline(text[position]);
  auto const after_first = may_precede ? position + first.bytes : position;
  // First words with small letters, then those without; each with a character in front, if it can.
  auto end = position;
  if (auto const found = end_of_small_letters(text, after_first); found != after_first)
    end = found;
  else if (auto const marked = end_of_small_letters(text, position); marked != position)
    end = marked;
  else if (auto const capitals = end_of_cased_letters(text, after_first); capitals != after_first)
    end = capitals;
  if (end == position)
    return end_without_letters(text, position, longest_number, "\r\n/", marks::other);
  return contractions ? end + contraction_of_any_case_at(text, end) : end;
}

}  // namespace

std::optional<word_pattern> find_word_pattern(std::string_view regular_expression) {
  for (auto const& known : known_patterns)
    if (known.regular_expression == regular_expression) return known.pattern;
  return std::nullopt;
}

std::string_view regular_expression_of(word_pattern pattern) {
  for (auto const& known : known_patterns)
    if (known.pattern == pattern) return known.regular_expression;
  return {};
}

std::string_view word_pattern_names() {
  return "GPT-2's, GPT-4's and Llama 3's, Qwen2's, Qwen3.5's, GPT-4o's and Llama 4's, and Tekken's "
         "(Mistral NeMo)";
}

std::size_t end_of_word(std::string_view text, std::size_t position, word_pattern pattern) {
  switch (pattern) {
    case word_pattern::llama3: return end_of_llama3_word(text, position, 3, marks::other);
    case word_pattern::qwen2: return end_of_llama3_word(text, position, 1, marks::other);
    case word_pattern::qwen3_5: return end_of_llama3_word(text, position, 1, marks::letters);
    case word_pattern::gpt4o: return end_of_gpt4o_word(text, position, 3, true);
    case word_pattern::tekken: return end_of_gpt4o_word(text, position, 1, false);
    case word_pattern::gpt2: break;
  }
  return end_of_gpt2_word(text, position);
}

}  // namespace mpt
