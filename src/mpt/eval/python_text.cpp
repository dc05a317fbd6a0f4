#include <mpt/eval/python_text.hpp>

#include <cstddef>

#include <utf8proc.h>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt::eval {
namespace {

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  auto const size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
}

/// Whether the normalisation of answers treats a character as punctuation: ASCII's, and four
/// quotation marks.
[[nodiscard]] bool is_answer_punctuation(char32_t c) {
  bool const ascii = (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) ||
                     (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
  return ascii || c == 0x2018 || c == 0x2019 || c == 0xB4;
}

}  // namespace

std::string_view rstrip(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t position = 0; position < text.size();) {
    auto const next = utf8::read(text, position);
    position += next.bytes;
    if (!is_python_space(next.code_point)) end = position;
  }
  return text.substr(0, end);
}

std::string_view strip(std::string_view text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    auto const next = utf8::read(text, begin);
    if (!is_python_space(next.code_point)) break;
    begin += next.bytes;
  }
  return rstrip(text.substr(begin));
}

std::string normalise_answer(std::string_view answer) {
  std::string out, word;
  auto const end_of_word = [&] {
    if (!word.empty() && !out.empty()) out += ' ';
    out += word;
    word.clear();
  };
  // An article is a whole run of letters and digits; an adjacent mark does not belong to the run.
  std::string run;
  auto const end_of_run = [&] {
    if (run == "a" || run == "an" || run == "the")
      end_of_word();
    else
      word += run;
    run.clear();
  };
  for (std::size_t position = 0; position < answer.size();) {
    auto const next = utf8::read(answer, position);
    position += next.bytes;
    auto const c = next.code_point;
    if (is_python_space(c) || is_answer_punctuation(c)) {
      end_of_run();
      end_of_word();
    } else if (c == 0x130) {  // the one character that becomes two
      run += 'i';
      end_of_run();
      append_utf8(word, 0x307);
    } else {
      auto const kind = class_of(c);
      bool const is_word_part = kind == character_class::letter || kind == character_class::number;
      if (!is_word_part) end_of_run();
      append_utf8(is_word_part ? run : word,
                  static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  end_of_run();
  end_of_word();
  return out;
}

}  // namespace mpt::eval
