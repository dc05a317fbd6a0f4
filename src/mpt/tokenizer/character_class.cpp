#include <mpt/tokenizer/character_class.hpp>

#include <algorithm>

#include <utf8proc.h>

namespace mpt {
namespace {

struct category_range {
  char32_t first;
  char32_t last;
  utf8proc_category_t category;
};

/// Letters, marks and numbers that Unicode 15.1 and 16 added.
constexpr category_range newer_categories[] = {{0x0897, 0x0897, UTF8PROC_CATEGORY_MN},
                                               {0x1C89, 0x1C89, UTF8PROC_CATEGORY_LU},
                                               {0x1C8A, 0x1C8A, UTF8PROC_CATEGORY_LL},
                                               {0xA7CB, 0xA7CC, UTF8PROC_CATEGORY_LU},
                                               {0xA7CD, 0xA7CD, UTF8PROC_CATEGORY_LL},
                                               {0xA7DA, 0xA7DA, UTF8PROC_CATEGORY_LU},
                                               {0xA7DB, 0xA7DB, UTF8PROC_CATEGORY_LL},
                                               {0xA7DC, 0xA7DC, UTF8PROC_CATEGORY_LU},
                                               {0x105C0, 0x105F3, UTF8PROC_CATEGORY_LO},
                                               {0x10D40, 0x10D49, UTF8PROC_CATEGORY_ND},
                                               {0x10D4A, 0x10D4D, UTF8PROC_CATEGORY_LO},
                                               {0x10D4E, 0x10D4E, UTF8PROC_CATEGORY_LM},
                                               {0x10D4F, 0x10D4F, UTF8PROC_CATEGORY_LO},
                                               {0x10D50, 0x10D65, UTF8PROC_CATEGORY_LU},
                                               {0x10D69, 0x10D6D, UTF8PROC_CATEGORY_MN},
                                               {0x10D6F, 0x10D6F, UTF8PROC_CATEGORY_LM},
                                               {0x10D70, 0x10D85, UTF8PROC_CATEGORY_LL},
                                               {0x10EC2, 0x10EC4, UTF8PROC_CATEGORY_LO},
                                               {0x10EFC, 0x10EFC, UTF8PROC_CATEGORY_MN},
                                               {0x11380, 0x11389, UTF8PROC_CATEGORY_LO},
                                               {0x1138B, 0x1138B, UTF8PROC_CATEGORY_LO},
                                               {0x1138E, 0x1138E, UTF8PROC_CATEGORY_LO},
                                               {0x11390, 0x113B5, UTF8PROC_CATEGORY_LO},
                                               {0x113B7, 0x113B7, UTF8PROC_CATEGORY_LO},
                                               {0x113B8, 0x113BA, UTF8PROC_CATEGORY_MC},
                                               {0x113BB, 0x113C0, UTF8PROC_CATEGORY_MN},
                                               {0x113C2, 0x113C2, UTF8PROC_CATEGORY_MC},
                                               {0x113C5, 0x113C5, UTF8PROC_CATEGORY_MC},
                                               {0x113C7, 0x113CA, UTF8PROC_CATEGORY_MC},
                                               {0x113CC, 0x113CD, UTF8PROC_CATEGORY_MC},
                                               {0x113CE, 0x113CE, UTF8PROC_CATEGORY_MN},
                                               {0x113CF, 0x113CF, UTF8PROC_CATEGORY_MC},
                                               {0x113D0, 0x113D0, UTF8PROC_CATEGORY_MN},
                                               {0x113D1, 0x113D1, UTF8PROC_CATEGORY_LO},
                                               {0x113D2, 0x113D2, UTF8PROC_CATEGORY_MN},
                                               {0x113D3, 0x113D3, UTF8PROC_CATEGORY_LO},
                                               {0x113E1, 0x113E2, UTF8PROC_CATEGORY_MN},
                                               {0x116D0, 0x116E3, UTF8PROC_CATEGORY_ND},
                                               {0x11BC0, 0x11BE0, UTF8PROC_CATEGORY_LO},
                                               {0x11BF0, 0x11BF9, UTF8PROC_CATEGORY_ND},
                                               {0x11F5A, 0x11F5A, UTF8PROC_CATEGORY_MN},
                                               {0x13460, 0x143FA, UTF8PROC_CATEGORY_LO},
                                               {0x16100, 0x1611D, UTF8PROC_CATEGORY_LO},
                                               {0x1611E, 0x16129, UTF8PROC_CATEGORY_MN},
                                               {0x1612A, 0x1612C, UTF8PROC_CATEGORY_MC},
                                               {0x1612D, 0x1612F, UTF8PROC_CATEGORY_MN},
                                               {0x16130, 0x16139, UTF8PROC_CATEGORY_ND},
                                               {0x16D40, 0x16D42, UTF8PROC_CATEGORY_LM},
                                               {0x16D43, 0x16D6A, UTF8PROC_CATEGORY_LO},
                                               {0x16D6B, 0x16D6C, UTF8PROC_CATEGORY_LM},
                                               {0x16D70, 0x16D79, UTF8PROC_CATEGORY_ND},
                                               {0x18CFF, 0x18CFF, UTF8PROC_CATEGORY_LO},
                                               {0x1CCF0, 0x1CCF9, UTF8PROC_CATEGORY_ND},
                                               {0x1E5D0, 0x1E5ED, UTF8PROC_CATEGORY_LO},
                                               {0x1E5EE, 0x1E5EF, UTF8PROC_CATEGORY_MN},
                                               {0x1E5F0, 0x1E5F0, UTF8PROC_CATEGORY_LO},
                                               {0x1E5F1, 0x1E5FA, UTF8PROC_CATEGORY_ND},
                                               {0x2EBF0, 0x2EE5D, UTF8PROC_CATEGORY_LO}

};

/// The general category of a code point, which may be newer than utf8proc's Unicode.
[[nodiscard]] utf8proc_category_t category_of(char32_t c) {
  auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category != UTF8PROC_CATEGORY_CN) return category;
  auto const* const range =
      std::lower_bound(std::begin(newer_categories), std::end(newer_categories), c,
                       [](category_range const& r, char32_t value) { return r.last < value; });
  bool const known = range != std::end(newer_categories) && range->first <= c;
  return known ? range->category : UTF8PROC_CATEGORY_CN;
}

}  // namespace

character_class class_of(char32_t c) {
  if (c < 0x80) return detail::ascii_classes[c];
  if (is_white_space(c)) return character_class::space;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return character_class::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return character_class::number;
    default: return character_class::other;
  }
}

letter_case case_of(char32_t c) {
  if (c < 0x80) {
    if (detail::ascii_classes[c] != character_class::letter) return letter_case::none;
    return c < 'a' ? letter_case::upper : letter_case::lower;
  }
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return letter_case::upper;
    case UTF8PROC_CATEGORY_LL: return letter_case::lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return letter_case::caseless;
    default: return letter_case::none;
  }
}

bool is_mark(char32_t c) {
  if (c < 0x300) return false;
  auto const category = category_of(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool is_word_character(char32_t c) {
  if (c < 0x80)
    return c == '_' || detail::ascii_classes[c] == character_class::letter ||
           detail::ascii_classes[c] == character_class::number;
  bool const circled_letter = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                              (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  if (circled_letter || c == 0x200C || c == 0x200D) return true;
  if (case_of(c) != letter_case::none) return true;
  auto const category = category_of(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC;
}

}  // namespace mpt
