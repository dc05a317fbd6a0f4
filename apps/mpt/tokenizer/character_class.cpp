#include <mpt/tokenizer/character_class.hpp>

#include <algorithm>

#include <utf8proc.h>

namespace mpt {
namespace {

struct class_range {
  char32_t first;
  char32_t last;
  character_class kind;
};

/// Letters and numbers that Unicode 15.1 and 16 added.
constexpr class_range newer_classes[] = {
    {0x1C89, 0x1C8A, character_class::letter},   {0xA7CB, 0xA7CD, character_class::letter},
    {0xA7DA, 0xA7DC, character_class::letter},   {0x105C0, 0x105F3, character_class::letter},
    {0x10D40, 0x10D49, character_class::number}, {0x10D4A, 0x10D65, character_class::letter},
    {0x10D6F, 0x10D85, character_class::letter}, {0x10EC2, 0x10EC4, character_class::letter},
    {0x11380, 0x11389, character_class::letter}, {0x1138B, 0x1138B, character_class::letter},
    {0x1138E, 0x1138E, character_class::letter}, {0x11390, 0x113B5, character_class::letter},
    {0x113B7, 0x113B7, character_class::letter}, {0x113D1, 0x113D1, character_class::letter},
    {0x113D3, 0x113D3, character_class::letter}, {0x116D0, 0x116E3, character_class::number},
    {0x11BC0, 0x11BE0, character_class::letter}, {0x11BF0, 0x11BF9, character_class::number},
    {0x13460, 0x143FA, character_class::letter}, {0x16100, 0x1611D, character_class::letter},
    {0x16130, 0x16139, character_class::number}, {0x16D40, 0x16D6C, character_class::letter},
    {0x16D70, 0x16D79, character_class::number}, {0x18CFF, 0x18CFF, character_class::letter},
    {0x1CCF0, 0x1CCF9, character_class::number}, {0x1E5D0, 0x1E5ED, character_class::letter},
    {0x1E5F0, 0x1E5F0, character_class::letter}, {0x1E5F1, 0x1E5FA, character_class::number},
    {0x2EBF0, 0x2EE5D, character_class::letter},
};

}  // namespace

character_class class_of(char32_t c) {
  if (c < 0x80) return detail::ascii_classes[c];
  if (is_white_space(c)) return character_class::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return character_class::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return character_class::number;
    case UTF8PROC_CATEGORY_CN: break;  // unassigned in utf8proc's version of Unicode
    default: return character_class::other;
  }
  auto const* const range =
      std::lower_bound(std::begin(newer_classes), std::end(newer_classes), c,
                       [](class_range const& r, char32_t value) { return r.last < value; });
  bool const known = range != std::end(newer_classes) && range->first <= c;
  return known ? range->kind : character_class::other;
}

}  // namespace mpt
