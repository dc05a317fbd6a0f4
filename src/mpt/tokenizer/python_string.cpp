#include <mpt/tokenizer/python_string.hpp>

#include <algorithm>

#include <utf8proc.h>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt::python {
namespace {

/// Characters whose upper case is several characters (Unicode's SpecialCasing.txt): each entry is
/// the character, its upper case and a space.
constexpr std::u32string_view expanded_capitals =
    U"\u00DFSS \u0149\u02BCN \u01F0J\u030C \u0390\u0399\u0308\u0301 \u03B0\u03A5\u0308\u0301 "
    U"\u0587\u0535\u0552 \u1E96H\u0331 \u1E97T\u0308 \u1E98W\u030A \u1E99Y\u030A "
    U"\u1E9AA\u02BE \u1F50\u03A5\u0313 \u1F52\u03A5\u0313\u0300 \u1F54\u03A5\u0313\u0301 "
    U"\u1F56\u03A5\u0313\u0342 \u1F80\u1F08\u0399 \u1F81\u1F09\u0399 \u1F82\u1F0A\u0399 "
    U"\u1F83\u1F0B\u0399 \u1F84\u1F0C\u0399 \u1F85\u1F0D\u0399 \u1F86\u1F0E\u0399 "
    U"\u1F87\u1F0F\u0399 \u1F88\u1F08\u0399 \u1F89\u1F09\u0399 \u1F8A\u1F0A\u0399 "
    U"\u1F8B\u1F0B\u0399 \u1F8C\u1F0C\u0399 \u1F8D\u1F0D\u0399 \u1F8E\u1F0E\u0399 "
    U"\u1F8F\u1F0F\u0399 \u1F90\u1F28\u0399 \u1F91\u1F29\u0399 \u1F92\u1F2A\u0399 "
    U"\u1F93\u1F2B\u0399 \u1F94\u1F2C\u0399 \u1F95\u1F2D\u0399 \u1F96\u1F2E\u0399 "
    U"\u1F97\u1F2F\u0399 \u1F98\u1F28\u0399 \u1F99\u1F29\u0399 \u1F9A\u1F2A\u0399 "
    U"\u1F9B\u1F2B\u0399 \u1F9C\u1F2C\u0399 \u1F9D\u1F2D\u0399 \u1F9E\u1F2E\u0399 "
    U"\u1F9F\u1F2F\u0399 \u1FA0\u1F68\u0399 \u1FA1\u1F69\u0399 \u1FA2\u1F6A\u0399 "
    U"\u1FA3\u1F6B\u0399 \u1FA4\u1F6C\u0399 \u1FA5\u1F6D\u0399 \u1FA6\u1F6E\u0399 "
    U"\u1FA7\u1F6F\u0399 \u1FA8\u1F68\u0399 \u1FA9\u1F69\u0399 \u1FAA\u1F6A\u0399 "
    U"\u1FAB\u1F6B\u0399 \u1FAC\u1F6C\u0399 \u1FAD\u1F6D\u0399 \u1FAE\u1F6E\u0399 "
    U"\u1FAF\u1F6F\u0399 \u1FB2\u1FBA\u0399 \u1FB3\u0391\u0399 \u1FB4\u0386\u0399 "
    U"\u1FB6\u0391\u0342 \u1FB7\u0391\u0342\u0399 \u1FBC\u0391\u0399 \u1FC2\u1FCA\u0399 "
    U"\u1FC3\u0397\u0399 \u1FC4\u0389\u0399 \u1FC6\u0397\u0342 \u1FC7\u0397\u0342\u0399 "
    U"\u1FCC\u0397\u0399 \u1FD2\u0399\u0308\u0300 \u1FD3\u0399\u0308\u0301 \u1FD6\u0399\u0342 "
    U"\u1FD7\u0399\u0308\u0342 \u1FE2\u03A5\u0308\u0300 \u1FE3\u03A5\u0308\u0301 "
    U"\u1FE4\u03A1\u0313 \u1FE6\u03A5\u0342 \u1FE7\u03A5\u0308\u0342 \u1FF2\u1FFA\u0399 "
    U"\u1FF3\u03A9\u0399 \u1FF4\u038F\u0399 \u1FF6\u03A9\u0342 \u1FF7\u03A9\u0342\u0399 "
    U"\u1FFC\u03A9\u0399 \uFB00FF \uFB01FI \uFB02FL \uFB03FFI \uFB04FFL \uFB05ST \uFB06ST "
    U"\uFB13\u0544\u0546 \uFB14\u0544\u0535 \uFB15\u0544\u053B \uFB16\u054E\u0546 "
    U"\uFB17\u0544\u053D ";

[[nodiscard]] std::u32string_view capitals_of(char32_t c) {
  if (c < 0xDF) return {};
  for (std::size_t begin = 0; begin < expanded_capitals.size();) {
    auto const end = expanded_capitals.find(U' ', begin);
    if (expanded_capitals[begin] == c) return expanded_capitals.substr(begin + 1, end - begin - 1);
    begin = end + 1;
  }
  return {};
}

[[nodiscard]] char32_t lower_of(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

[[nodiscard]] char32_t title_of(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

[[nodiscard]] char32_t upper_of(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

/// Whether a character has a case, in the sense of the rule for the Greek final sigma.
[[nodiscard]] bool is_cased(char32_t c) {
  return lower_of(c) != c || upper_of(c) != c || title_of(c) != c || !capitals_of(c).empty();
}

[[nodiscard]] bool is_ignored_by_case(char32_t c) {
  auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
         category == UTF8PROC_CATEGORY_SK || c == U'\'' || c == U'.' || c == U':' || c == 0xB7 ||
         c == 0x2019 || c == 0x2018;
}

/// Whether the sigma at `position` ends a word.
[[nodiscard]] bool is_final(std::u32string_view text, std::size_t position) {
  auto begin = position;
  while (begin > 0 && is_ignored_by_case(text[begin - 1])) --begin;
  auto end = position + 1;
  while (end < text.size() && is_ignored_by_case(text[end])) ++end;
  return begin > 0 && is_cased(text[begin - 1]) && (end == text.size() || !is_cased(text[end]));
}

void append_lower(std::u32string& out, std::u32string_view text, std::size_t position) {
  auto const c = text[position];
  if (c == 0x130)
    out += U"i\u0307";
  else if (c == 0x3A3)
    out += is_final(text, position) ? char32_t{0x3C2} : char32_t{0x3C3};
  else
    out += lower_of(c);
}

void append_title(std::u32string& out, char32_t c) {
  auto const capitals = capitals_of(c);
  bool const has_title_form =
      c >= 0x1F80 && c <= 0x1FFC && title_of(c) != c;  // Greek letters with iota
  if (capitals.empty() || has_title_form) {
    out += title_of(c);
    return;
  }
  out += capitals.front();
  for (auto const next : capitals.substr(1)) out += c == 0x149 ? next : lower_of(next);
}

/// Whether letters of one case are in the text, and none of the other and of title case.
[[nodiscard]] bool has_only(std::u32string_view text, utf8proc_category_t wanted,
                            utf8proc_category_t other) {
  bool has_wanted = false;
  for (auto const c : text) {
    auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (category == other || category == UTF8PROC_CATEGORY_LT) return false;
    has_wanted = has_wanted || category == wanted;
  }
  return has_wanted;
}

}  // namespace

std::u32string decode(std::string_view text) {
  std::u32string out;
  for (std::size_t position = 0; position < text.size();) {
    auto const next = utf8::read(text, position);
    out += next.code_point;
    position += next.bytes;
  }
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  for (auto const c : text) utf8::append(out, c);
  return out;
}

bool is_alphabetic(char32_t c) {
  auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

bool is_numeric(char32_t c) {
  auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_name_character(char32_t c) {
  auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return is_alphabetic(c) || is_decimal(c) || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_PC;
}

bool is_printable(char32_t c) {
  auto const category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return c == U' ' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_SO);
}

bool is_lower(std::u32string_view text) {
  return has_only(text, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LU);
}

bool is_upper(std::u32string_view text) {
  return has_only(text, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL);
}

std::u32string lower(std::u32string_view text) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

std::u32string upper(std::u32string_view text) {
  std::u32string out;
  for (auto const c : text) {
    auto const capitals = capitals_of(c);
    if (capitals.empty())
      out += upper_of(c);
    else
      out += capitals;
  }
  return out;
}

std::u32string capitalize(std::u32string_view text) {
  std::u32string out;
  if (!text.empty()) append_title(out, text.front());
  for (std::size_t i = 1; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

std::u32string title(std::u32string_view text) {
  std::u32string out;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_word)
      append_lower(out, text, i);
    else
      append_title(out, text[i]);
    in_word = is_cased(text[i]);
  }
  return out;
}

std::u32string_view strip(std::u32string_view text, bool left, bool right,
                          std::optional<std::u32string_view> characters) {
  auto const is_stripped = [&](char32_t c) {
    return characters ? characters->find(c) != std::u32string_view::npos : is_space(c);
  };
  while (left && !text.empty() && is_stripped(text.front())) text.remove_prefix(1);
  while (right && !text.empty() && is_stripped(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::u32string_view> split(std::u32string_view text, std::int64_t max_splits) {
  std::vector<std::u32string_view> out;
  for (text = strip(text, true, false, {}); !text.empty(); text = strip(text, true, false, {})) {
    if (max_splits >= 0 && static_cast<std::int64_t>(out.size()) == max_splits) {
      out.push_back(strip(text, false, true, {}));
      return out;
    }
    auto const end = static_cast<std::size_t>(std::ranges::find_if(text, is_space) - text.begin());
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

std::vector<std::size_t> slice_indices(std::size_t size, std::optional<std::int64_t> begin,
                                       std::optional<std::int64_t> end, std::int64_t step) {
  auto const count = static_cast<std::int64_t>(size);
  auto const lower_bound = step < 0 ? std::int64_t{-1} : std::int64_t{0};
  auto const upper_bound = step < 0 ? count - 1 : count;
  auto const clamped = [&](std::int64_t index) {
    return std::clamp(index < 0 ? index + count : index, lower_bound, upper_bound);
  };
  auto const first = begin ? clamped(*begin) : (step < 0 ? upper_bound : lower_bound);
  auto const last = end ? clamped(*end) : (step < 0 ? lower_bound : upper_bound);
  std::vector<std::size_t> out;
  for (auto index = first; step > 0 ? index < last : index > last;) {
    out.push_back(static_cast<std::size_t>(index));
    if (step > 0 ? step >= last - index : step <= last - index)
      break;  // the next index would be outside or overflow
    index += step;
  }
  return out;
}

}  // namespace mpt::python
