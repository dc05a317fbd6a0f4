// Methods of Python's str, list, tuple and dict.
#include <algorithm>
#include <array>
#include <utility>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/python_string.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace methods {
namespace {

/// Counts the work of a search for `needle` in the whole of `haystack`.
void spend_search(environment& state, std::string_view haystack, std::string_view needle) {
  auto const positions = haystack.size() - std::min(haystack.size(), needle.size());
  state.work.spend(haystack.size() + positions / 64 * needle.size());
}

[[nodiscard]] value text_list(environment& state, std::vector<std::string> parts,
                              sequence_kind kind = sequence_kind::list) {
  std::vector<value> items;
  for (auto& part : parts) items.push_back(new_text(state, std::move(part)));
  return new_sequence(state, kind, std::move(items));
}

/// A method that maps the characters of a string.
template <std::u32string (*Convert)(std::u32string_view)>
[[nodiscard]] value converted(environment& state, arguments& args) {
  auto const& self = require_text(*bind(args, "str", {"self"}, 1)[0]);
  state.work.spend(4 * self.size());
  return new_text(state, python::encode(Convert(python::decode(self))));
}

/// A method that asks whether a string is not empty and all characters have a property.
template <bool (*Property)(char32_t)>
[[nodiscard]] value all_characters(environment& state, arguments& args) {
  auto const& self = require_text(*bind(args, "str", {"self"}, 1)[0]);
  state.work.spend(self.size());
  auto const characters = python::decode(self);
  return !characters.empty() && std::ranges::all_of(characters, Property);
}
[[nodiscard]] bool is_alphanumeric(char32_t c) {
  return python::is_alphabetic(c) || python::is_numeric(c);
}
/// Whether Unicode gives the character a digit's value: decimal ones, raised, lowered and circled.
[[nodiscard]] bool is_digit(char32_t c) {
  using range = std::pair<char32_t, char32_t>;
  constexpr std::array others{
      range{0xB2, 0xB3},     range{0xB9, 0xB9},     range{0x1369, 0x1371}, range{0x19DA, 0x19DA},
      range{0x2070, 0x2070}, range{0x2074, 0x2079}, range{0x2080, 0x2089}, range{0x2460, 0x2468},
      range{0x2474, 0x247C}, range{0x2488, 0x2490}, range{0x24EA, 0x24EA}, range{0x24F5, 0x24FD},
      range{0x24FF, 0x24FF}, range{0x2776, 0x277E}, range{0x2780, 0x2788}, range{0x278A, 0x2792}};
  return python::is_decimal(c) ||
         std::ranges::any_of(others, [&](range r) { return r.first <= c && c <= r.second; });
}
[[nodiscard]] bool is_white(char32_t c) { return python::is_space(c); }
[[nodiscard]] value is_ascii(environment& state, arguments& args) {
  auto const& self = require_text(*bind(args, "isascii", {"self"}, 1)[0]);
  state.work.spend(self.size());
  return utf8::skip_ascii(self, 0) == self.size();
}
template <bool (*Property)(std::u32string_view)>
[[nodiscard]] value whole_text(environment& state, arguments& args) {
  auto const& self = require_text(*bind(args, "str", {"self"}, 1)[0]);
  state.work.spend(self.size());
  return Property(python::decode(self));
}

template <bool Left, bool Right>
[[nodiscard]] value strip(environment& state, arguments& args) {
  auto const bound = bind(args, "strip", {"self", "chars"}, 1);
  auto const characters = python::decode(require_text(*bound[0]));
  std::optional<std::u32string> stripped;
  if (is_given(bound[1])) stripped = python::decode(require_text(*bound[1]));
  state.work.spend(4 * characters.size() * (stripped ? stripped->size() / 16 + 1 : 1));
  return new_text(state,
                  python::encode(python::strip(
                      characters, Left, Right,
                      stripped ? std::optional<std::u32string_view>(*stripped) : std::nullopt)));
}

/// str.split() and str.rsplit() at a separator.
[[nodiscard]] std::vector<std::string> split_at(std::string_view text, std::string_view separator,
                                                std::int64_t max_splits, bool from_right) {
  std::vector<std::string> out;
  while (max_splits < 0 || static_cast<std::int64_t>(out.size()) < max_splits) {
    auto const found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    auto const end = found + separator.size();
    out.emplace_back(from_right ? text.substr(end) : text.substr(0, found));
    text = from_right ? text.substr(0, found) : text.substr(end);
  }
  out.emplace_back(text);
  if (from_right) std::ranges::reverse(out);
  return out;
}

template <bool FromRight>
[[nodiscard]] value split(environment& state, arguments& args) {
  auto const bound = bind(args, "split", {"self", "sep", "maxsplit"}, 1);
  auto const& self = require_text(*bound[0]);
  auto const max_splits = bound[2] == nullptr ? -1 : require_integer(*bound[2]);
  if (is_given(bound[1])) {
    auto const& separator = require_text(*bound[1]);
    if (separator.empty()) throw render_error("empty separator");
    spend_search(state, self, separator);
    return text_list(state, split_at(self, separator, max_splits, FromRight));
  }
  state.work.spend(4 * self.size());
  auto characters = python::decode(self);
  if (FromRight) std::ranges::reverse(characters);
  std::vector<std::string> out;
  for (auto const part : python::split(characters, max_splits)) {
    std::u32string word(part);
    if (FromRight) std::ranges::reverse(word);
    out.push_back(python::encode(word));
  }
  if (FromRight) std::ranges::reverse(out);
  return text_list(state, std::move(out));
}

[[nodiscard]] value split_lines(environment& state, arguments& args) {
  auto const bound = bind(args, "splitlines", {"self", "keepends"}, 1);
  bool const keeps_ends = bound[1] != nullptr && is_true(*bound[1]);
  auto const characters = python::decode(require_text(*bound[0]));
  state.work.spend(4 * characters.size());
  std::vector<std::string> out;
  std::u32string line;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    auto const c = characters[i];
    bool const is_end = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
    if (!is_end || keeps_ends) line += c;
    if (c == U'\r' && i + 1 < characters.size() && characters[i + 1] == U'\n') {
      ++i;
      if (keeps_ends) line += U'\n';
    }
    if (is_end) out.push_back(python::encode(std::exchange(line, {})));
  }
  if (!line.empty()) out.push_back(python::encode(line));
  return text_list(state, std::move(out));
}

[[nodiscard]] value partition(environment& state, arguments& args) {
  auto const bound = bind(args, "partition", {"self", "sep"}, 2);
  auto const& self = require_text(*bound[0]);
  auto const& separator = require_text(*bound[1]);
  if (separator.empty()) throw render_error("empty separator");
  spend_search(state, self, separator);
  auto parts = split_at(self, separator, 1, false);
  if (parts.size() == 2)
    parts.insert(parts.begin() + 1, separator);
  else
    parts.insert(parts.end(), 2, std::string());
  return text_list(state, std::move(parts), sequence_kind::tuple);
}

[[nodiscard]] value replace(environment& state, arguments& args) {
  auto const bound = bind(args, "replace", {"self", "old", "new", "count"}, 3);
  auto const& self = require_text(*bound[0]);
  auto const& old_text = require_text(*bound[1]);
  auto const& replacement = require_text(*bound[2]);
  auto remaining = bound[3] == nullptr ? -1 : require_integer(*bound[3]);
  spend_search(state, self, old_text);
  std::string out;
  std::size_t position = 0;
  for (; remaining != 0; --remaining) {
    auto const found = old_text.empty() ? position : self.find(old_text, position);
    if (found == std::string::npos) break;
    state.work.spend(replacement.size());
    out.append(self, position, found - position).append(replacement);
    position = found + old_text.size();
    if (!old_text.empty()) continue;
    if (position == self.size()) return new_text(state, std::move(out));
    auto const bytes = utf8::read(self, position).bytes;
    out.append(self, position, bytes);
    position += bytes;
  }
  return new_text(state, out.append(self, position));
}

/// The part of a text between the positions that two arguments name, as in Python's slices.
struct text_range {
  std::u32string text;
  std::int64_t begin = 0;
  bool is_valid = true;  ///< false: the range begins end the text's end, or end its own end
};
[[nodiscard]] text_range range_of(std::string const& self, value const* begin, value const* end) {
  auto const characters = python::decode(self);
  auto const size = static_cast<std::int64_t>(characters.size());
  auto const clamp = [&](value const* bound, std::int64_t otherwise) {
    if (!is_given(bound)) return otherwise;
    auto const index = require_integer(*bound);
    return std::max<std::int64_t>(0, index < 0 ? index + size : index);
  };
  auto const first = clamp(begin, 0);
  auto const last = std::min(clamp(end, size), size);
  if (first > last) return {{}, first, false};
  return {
      characters.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)),
      first};
}

template <bool FromRight, bool Required>
[[nodiscard]] value find_text(environment& state, arguments& args) {
  auto const bound = bind(args, "find", {"self", "sub", "start", "end"}, 2);
  auto const& self = require_text(*bound[0]);
  auto const& needle = require_text(*bound[1]);
  spend_search(state, self, needle);
  auto const range = range_of(self, bound[2], bound[3]);
  auto const wanted = python::decode(needle);
  auto const found = !range.is_valid ? std::u32string::npos
                     : FromRight     ? range.text.rfind(wanted)
                                     : range.text.find(wanted);
  if (found != std::u32string::npos) return range.begin + static_cast<std::int64_t>(found);
  if (Required) throw render_error("substring not found");
  return std::int64_t{-1};
}

[[nodiscard]] value count_text(environment& state, arguments& args) {
  auto const bound = bind(args, "count", {"self", "sub", "start", "end"}, 2);
  auto const& self = require_text(*bound[0]);
  spend_search(state, self, require_text(*bound[1]));
  auto const range = range_of(self, bound[2], bound[3]);
  auto const wanted = python::decode(*bound[1]->string());
  if (!range.is_valid) return std::int64_t{0};
  if (wanted.empty()) return static_cast<std::int64_t>(range.text.size()) + 1;
  std::int64_t out = 0;
  for (auto position = range.text.find(wanted); position != std::u32string::npos;
       position = range.text.find(wanted, position + wanted.size()))
    ++out;
  return out;
}

template <bool AtEnd>
[[nodiscard]] value has_affix(environment& state, arguments& args) {
  auto const bound = bind(args, "startswith", {"self", "affix", "start", "end"}, 2);
  auto const& self = require_text(*bound[0]);
  state.work.spend(weight(*bound[1]));
  bool const is_tuple =
      bound[1]->items() != nullptr && bound[1]->items()->kind == sequence_kind::tuple;
  auto const affixes = is_tuple ? bound[1]->items()->items : std::vector{*bound[1]};
  bool const is_whole = !is_given(bound[2]) && !is_given(bound[3]);
  if (!is_whole) state.work.spend(4 * self.size());
  auto const range = is_whole ? text_range{} : range_of(self, bound[2], bound[3]);
  auto const part = is_whole ? self : python::encode(range.text);
  return range.is_valid && std::ranges::any_of(affixes, [&](value const& affix) {
           auto const& wanted = require_text(affix);
           return AtEnd ? part.ends_with(wanted) : part.starts_with(wanted);
         });
}

template <bool AtEnd>
[[nodiscard]] value remove_affix(environment& state, arguments& args) {
  auto const bound = bind(args, "removeprefix", {"self", "affix"}, 2);
  std::string_view self = require_text(*bound[0]);
  auto const& affix = require_text(*bound[1]);
  if (AtEnd && self.ends_with(affix)) self.remove_suffix(affix.size());
  if (!AtEnd && self.starts_with(affix)) self.remove_prefix(affix.size());
  return new_text(state, std::string(self));
}

[[nodiscard]] value join(environment& state, arguments& args) {
  auto const bound = bind(args, "join", {"self", "iterable"}, 2);
  auto const& separator = require_text(*bound[0]);
  require_defined(*bound[1]);
  state.work.spend(weight(*bound[1]));
  auto const items = iterate(*bound[1]);
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_text())
      throw render_error("sequence item " + std::to_string(i) + ": expected str instance, " +
                         type_name(items[i]) + " found");
    state.work.spend(separator.size());
    out += (i > 0 ? separator : "") + *items[i].string();
  }
  return new_text(state, std::move(out));
}

/// ljust ('<'), rjust ('>') and center ('^').
template <char Alignment>
[[nodiscard]] value justify(environment& state, arguments& args) {
  auto const bound = bind(args, "center", {"self", "width", "fillchar"}, 2);
  auto const& self = require_text(*bound[0]);
  auto const fill = bound[2] == nullptr ? std::string(" ") : require_text(*bound[2]);
  auto const width = require_integer(*bound[1]);
  if (length(make_text(fill)) != 1)
    throw render_error("The fill character must be exactly one character long");
  auto const missing = width - length(*bound[0]);
  if (missing <= 0) return *bound[0];
  state.work.spend(static_cast<std::size_t>(missing));
  auto const left = Alignment == '<'   ? 0
                    : Alignment == '>' ? missing
                                       : missing / 2 + (missing & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self;
  for (auto i = left; i < missing; ++i) out += fill;
  return new_text(state, std::move(out));
}

[[nodiscard]] value fill_zeros(environment& state, arguments& args) {
  auto const bound = bind(args, "zfill", {"self", "width"}, 2);
  auto const& self = require_text(*bound[0]);
  auto const missing = require_integer(*bound[1]) - length(*bound[0]);
  if (missing <= 0) return *bound[0];
  state.work.spend(static_cast<std::size_t>(missing));
  auto const sign = std::size_t{self.starts_with('-') || self.starts_with('+') ? 1U : 0U};
  return new_text(state, self.substr(0, sign) +
                             std::string(static_cast<std::size_t>(missing), '0') +
                             self.substr(sign));
}

[[nodiscard]] value format(environment& state, arguments& args) {
  auto const self = require_text(args.positional.front());
  args.positional.erase(args.positional.begin());
  return new_text(state, format_braces(state, self, args));
}

// lists and dictionaries

[[nodiscard]] value count_items(environment& state, arguments& args) {
  auto const bound = bind(args, "count", {"self", "value"}, 2);
  state.work.spend(weight(*bound[0]));
  return static_cast<std::int64_t>(std::ranges::count_if(
      bound[0]->items()->items, [&](value const& item) { return equals(item, *bound[1]); }));
}
[[nodiscard]] value index_of_item(environment& state, arguments& args) {
  auto const bound = bind(args, "index", {"self", "value"}, 2);
  state.work.spend(weight(*bound[0]));
  auto const& items = bound[0]->items()->items;
  auto const found =
      std::ranges::find_if(items, [&](value const& item) { return equals(item, *bound[1]); });
  if (found == items.end()) throw render_error(to_repr(*bound[1]) + " is not in list");
  return static_cast<std::int64_t>(found - items.begin());
}
[[nodiscard]] value copy_of(environment& /*state*/, arguments& args) {
  return *bind(args, "copy", {"self"}, 1)[0];
}

[[nodiscard]] value get_entry(environment& state, arguments& args) {
  auto const bound = bind(args, "get", {"self", "key", "default"}, 2);
  auto const& entries = *bound[0]->dictionary();
  state.work.spend(entries.entries.size() * (weight(*bound[1]) / 64 + 1));
  if (auto const* const found = find(entries, *bound[1])) return *found;
  return bound[2] == nullptr ? value(none{}) : *bound[2];
}
template <sequence_kind Kind>
[[nodiscard]] value entries_of(environment& state, arguments& args) {
  std::vector<value> out;
  for (auto const& [key, item] : bind(args, "items", {"self"}, 1)[0]->dictionary()->entries)
    out.push_back(Kind == sequence_kind::keys ? key
                  : Kind == sequence_kind::values
                      ? item
                      : new_sequence(state, sequence_kind::tuple, {key, item}));
  return new_sequence(state, Kind, std::move(out));
}

using entry = std::pair<std::string_view, builtin>;

constexpr std::array string_methods{
    entry{"upper", converted<python::upper>},
    entry{"lower", converted<python::lower>},
    entry{"title", converted<python::title>},
    entry{"capitalize", converted<python::capitalize>},
    entry{"strip", strip<true, true>},
    entry{"lstrip", strip<true, false>},
    entry{"rstrip", strip<false, true>},
    entry{"split", split<false>},
    entry{"rsplit", split<true>},
    entry{"splitlines", split_lines},
    entry{"partition", partition},
    entry{"replace", replace},
    entry{"find", find_text<false, false>},
    entry{"rfind", find_text<true, false>},
    entry{"index", find_text<false, true>},
    entry{"rindex", find_text<true, true>},
    entry{"count", count_text},
    entry{"startswith", has_affix<false>},
    entry{"endswith", has_affix<true>},
    entry{"removeprefix", remove_affix<false>},
    entry{"removesuffix", remove_affix<true>},
    entry{"join", join},
    entry{"ljust", justify<'<'>},
    entry{"rjust", justify<'>'>},
    entry{"center", justify<'^'>},
    entry{"zfill", fill_zeros},
    entry{"format", format},
    entry{"isalpha", all_characters<python::is_alphabetic>},
    entry{"isdecimal", all_characters<python::is_decimal>},
    entry{"isdigit", all_characters<is_digit>},
    entry{"isnumeric", all_characters<python::is_numeric>},
    entry{"isalnum", all_characters<is_alphanumeric>},
    entry{"isspace", all_characters<is_white>},
    entry{"isascii", is_ascii},
    entry{"islower", whole_text<python::is_lower>},
    entry{"isupper", whole_text<python::is_upper>},
};
constexpr std::array list_methods{entry{"count", count_items}, entry{"index", index_of_item},
                                  entry{"copy", copy_of}};
constexpr std::array dictionary_methods{
    entry{"get", get_entry}, entry{"keys", entries_of<sequence_kind::keys>},
    entry{"values", entries_of<sequence_kind::values>},
    entry{"items", entries_of<sequence_kind::items>}, entry{"copy", copy_of}};

}  // namespace
}  // namespace methods

builtin find_method(value const& self, std::string_view name) {
  auto const find_in = [&](auto const& table) -> builtin {
    auto const* const found = std::ranges::find(table, name, &methods::entry::first);
    return found == table.end() ? nullptr : found->second;
  };
  if (self.is_text()) return find_in(methods::string_methods);
  if (self.dictionary() != nullptr) return find_in(methods::dictionary_methods);
  auto const* const list = self.items();
  bool const has_methods =
      list != nullptr && (list->kind == sequence_kind::list || list->kind == sequence_kind::tuple ||
                          list->kind == sequence_kind::range);
  if (!has_methods || (name == "copy" && list->kind != sequence_kind::list)) return nullptr;
  return find_in(methods::list_methods);
}

}  // namespace mpt::jinja
