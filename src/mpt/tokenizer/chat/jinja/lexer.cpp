#include <mpt/tokenizer/chat/jinja/lexer.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <mpt/tokenizer/chat/jinja/value.hpp>
#include <mpt/tokenizer/python_string.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace {

constexpr std::array<std::string_view, 26> symbols{
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The source with \n alone between lines, and without the last line's end.
[[nodiscard]] std::string normalize_newlines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && source.substr(i + 1).starts_with('\n')) continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  return out;
}

class lexer {
 public:
  explicit lexer(std::string_view source) : source_(normalize_newlines(source)), text_(source_) {
    if (text_.ends_with('\n')) text_.remove_suffix(1);
  }

  [[nodiscard]] std::vector<token> result() && {
    while (position_ < text_.size()) read_data();
    add(token_kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string const& problem) const {
    throw render_error(problem + ", in line " + std::to_string(line_));
  }

  void add(token_kind kind, std::string_view text) {
    tokens_.push_back({kind, line_, std::string(text)});
  }

  [[nodiscard]] std::string_view rest() const { return text_.substr(position_); }

  /// Moves behind text that has been read.
  void advance(std::size_t bytes) {
    auto const read = text_.substr(position_, bytes);
    line_ += static_cast<std::size_t>(std::ranges::count(read, '\n'));
    if (!read.empty()) at_line_start_ = read.back() == '\n';
    position_ += read.size();
  }

  /// The bytes of the white space that begins `offset` behind the position.
  [[nodiscard]] std::size_t space_bytes(std::size_t offset) const {
    auto end = position_ + offset;
    while (end < text_.size()) {
      auto const next = utf8::read(text_, end);
      if (!python::is_space(next.code_point)) break;
      end += next.bytes;
    }
    return end - position_ - offset;
  }

  /// If a tag ends here with `mark`, perhaps with a - or + in front of it, the bytes up to where
  /// the text goes on; otherwise 0.
  [[nodiscard]] std::size_t end_bytes(std::string_view mark, std::size_t offset = 0) const {
    auto const next = rest().substr(std::min(offset, rest().size()));
    bool const is_output = mark == "}}";
    if (next.starts_with('-') && next.substr(1).starts_with(mark))
      return 3 + space_bytes(offset + 3);
    if (!is_output && next.starts_with('+') && next.substr(1).starts_with(mark)) return 3;
    if (!next.starts_with(mark)) return 0;
    return !is_output && next.substr(2).starts_with('\n') ? 3 : 2;
  }

  /// Reads the text up to the next tag, and that tag.
  void read_data() {
    auto begin = position_;
    while (begin < text_.size() &&
           !(text_[begin] == '{' && begin + 1 < text_.size() &&
             (text_[begin + 1] == '{' || text_[begin + 1] == '%' || text_[begin + 1] == '#')))
      ++begin;
    auto const data = text_.substr(position_, begin - position_);
    if (begin == text_.size()) {
      add(token_kind::data, data);
      return advance(data.size());
    }
    char const kind = text_[begin + 1];
    bool const has_sign =
        begin + 2 < text_.size() && (text_[begin + 2] == '-' || text_[begin + 2] == '+');
    add_data(data, has_sign ? text_[begin + 2] : ' ', kind == '{');
    advance(data.size());
    auto const begin_bytes = std::size_t{2} + (has_sign ? 1 : 0);
    if (kind == '#') return skip_comment(begin_bytes);
    if (kind == '%' && read_raw(begin_bytes)) return;
    add(kind == '{' ? token_kind::output_begin : token_kind::block_begin, "");
    advance(begin_bytes);
    read_tag(kind == '{');
  }

  /// Adds the text in front of a tag that begins with `sign`.
  void add_data(std::string_view data, char sign, bool is_output) {
    if (sign == '-') {
      auto const stripped = python::encode(python::strip(python::decode(data), false, true, {}));
      return add(token_kind::data, stripped);
    }
    auto const newline = data.rfind('\n');
    auto const begin = newline == std::string_view::npos ? 0 : newline + 1;
    bool const begins_line = begin > 0 || at_line_start_;
    if (sign != '+' && !is_output && begins_line &&
        python::strip(python::decode(data.substr(begin)), true, true, {}).empty())
      data = data.substr(0, begin);
    add(token_kind::data, data);
  }

  void skip_comment(std::size_t begin_bytes) {
    auto const end = text_.find("#}", position_ + begin_bytes);
    if (end == std::string_view::npos) fail("Missing end of comment tag");
    bool const has_sign =
        end > position_ + begin_bytes && (text_[end - 1] == '-' || text_[end - 1] == '+');
    advance(end - position_ - (has_sign ? 1 : 0));
    advance(end_bytes("#}"));
  }

  /// Reads {% raw %} up to its end, if the tag is one.
  [[nodiscard]] bool read_raw(std::size_t begin_bytes) {
    auto const name = begin_bytes + space_bytes(begin_bytes);
    if (!rest().substr(name).starts_with("raw")) return false;
    auto const end = name + 3 + space_bytes(name + 3);
    bool const strips = rest().substr(end).starts_with("-%}");
    if (!strips && !rest().substr(end).starts_with("%}")) return false;
    advance(strips ? end + 3 + space_bytes(end + 3) : end + 2);
    for (auto begin = text_.find("{%", position_); begin != std::string_view::npos;
         begin = text_.find("{%", begin + 1)) {
      auto offset = begin - position_ + 2;
      char const sign = rest().substr(offset).starts_with('-')   ? '-'
                        : rest().substr(offset).starts_with('+') ? '+'
                                                                 : ' ';
      offset += sign == ' ' ? 0 : 1;
      offset += space_bytes(offset);
      if (!rest().substr(offset).starts_with("endraw")) continue;
      offset += 6 + space_bytes(offset + 6);
      auto const bytes = end_bytes("%}", offset);
      if (bytes == 0) continue;
      add_data(rest().substr(0, begin - position_), sign, false);
      advance(offset + bytes);
      return true;
    }
    fail("Missing end of raw directive");
  }

  void read_tag(bool is_output) {
    std::string open_brackets;
    while (true) {
      if (open_brackets.empty()) {
        if (auto const bytes = end_bytes(is_output ? "}}" : "%}"); bytes > 0) {
          add(is_output ? token_kind::output_end : token_kind::block_end, "");
          return advance(bytes);
        }
      }
      if (position_ == text_.size()) return;
      char const c = text_[position_];
      if (auto const spaces = space_bytes(0); spaces > 0)
        advance(spaces);
      else if (is_digit(c))
        read_number();
      else if (c == '"' || c == '\'')
        read_string(c);
      else if (!read_name())
        read_symbol(open_brackets);
    }
  }

  /// The bytes of digits, with single _ between them, from `offset` on.
  [[nodiscard]] std::size_t digit_bytes(std::size_t offset, std::string_view digits) const {
    auto end = offset;
    while (end < rest().size() && (digits.find(rest()[end]) != std::string_view::npos ||
                                   (rest()[end] == '_' && end > offset && rest()[end - 1] != '_')))
      ++end;
    while (end > offset && rest()[end - 1] == '_') --end;
    return end - offset;
  }

  void read_number() {
    constexpr std::string_view decimal = "0123456789";
    auto const prefix = rest().substr(0, 2);
    std::string_view const based = prefix == "0x" || prefix == "0X"   ? "0123456789abcdefABCDEF"
                                   : prefix == "0o" || prefix == "0O" ? "01234567"
                                   : prefix == "0b" || prefix == "0B" ? "01"
                                                                      : "";
    bool const after_dot = position_ > 0 && text_[position_ - 1] == '.';
    auto bytes = digit_bytes(0, decimal);
    auto kind = token_kind::integer;
    if (auto const based_digits = digit_bytes(2, based); based_digits > 0) {
      bytes = 2 + based_digits;
    } else if (!after_dot) {
      if (rest().substr(bytes).starts_with('.')) {
        if (auto const fraction = digit_bytes(bytes + 1, decimal); fraction > 0) {
          bytes += 1 + fraction;
          kind = token_kind::floating;
        }
      }
      if (rest().substr(bytes).starts_with('e') || rest().substr(bytes).starts_with('E')) {
        auto const sign = rest().substr(bytes + 1);
        auto const digits = bytes + 1 + (sign.starts_with('-') || sign.starts_with('+') ? 1U : 0U);
        if (auto const exponent = digit_bytes(digits, decimal); exponent > 0) {
          bytes = digits + exponent;
          kind = token_kind::floating;
        }
      }
    }
    std::string number(rest().substr(0, bytes));
    std::erase(number, '_');
    add(kind, number);
    advance(bytes);
  }

  [[nodiscard]] bool read_name() {
    auto end = position_;
    while (end < text_.size()) {
      auto const next = utf8::read(text_, end);
      if (!python::is_name_character(next.code_point)) break;
      end += next.bytes;
    }
    if (end == position_) return false;
    add(token_kind::name, text_.substr(position_, end - position_));
    advance(end - position_);
    return true;
  }

  void read_symbol(std::string& open_brackets) {
    auto const* const found =
        std::ranges::find_if(symbols, [&](auto symbol) { return rest().starts_with(symbol); });
    if (found == symbols.end())
      fail("unexpected character '" + std::string(rest().substr(0, utf8::read(rest(), 0).bytes)) +
           "'");
    char const c = found->front();
    if (c == '(' || c == '[' || c == '{') open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c)
        fail(std::string("unexpected '") + c + "'");
      open_brackets.pop_back();
    }
    add(token_kind::symbol, *found);
    advance(found->size());
  }

  void read_string(char quote) {
    std::string out;
    auto end = position_ + 1;
    while (end < text_.size() && text_[end] != quote) {
      if (text_[end] != '\\')
        out += text_[end++];
      else
        end += read_escape(end, out);
    }
    if (end >= text_.size()) fail("a string is not closed");
    add(token_kind::string, out);
    advance(end + 1 - position_);
  }

  /// Appends the character that the escape at `begin` stands for; returns the escape's bytes.
  [[nodiscard]] std::size_t read_escape(std::size_t begin, std::string& out) const {
    auto const kind = text_.substr(begin + 1, 1);
    if (kind.empty()) return 1;
    char const c = kind.front();
    constexpr std::string_view escapes = "abfnrtv\\'\"";
    constexpr std::string_view characters = "\a\b\f\n\r\t\v\\'\"";
    if (auto const found = escapes.find(c); found != std::string_view::npos) {
      out += characters[found];
      return 2;
    }
    if (c == '\n') return 2;
    if (c == 'N') fail("the escape \\N is not supported; write the character itself");
    bool const is_octal = c >= '0' && c <= '7';
    std::size_t const digits_wanted = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : is_octal ? 3 : 0;
    if (digits_wanted ==
        0) {  // Python keeps the backslash, and writes a character beyond ASCII as its code
      auto const next = utf8::read(text_, begin + 1);
      constexpr std::string_view digits = "0123456789abcdef";
      out += '\\';
      if (next.code_point < 0x80) return 1;
      int const width = next.code_point < 0x100 ? 2 : next.code_point < 0x10000 ? 4 : 8;
      out += width == 2 ? 'x' : width == 4 ? 'u' : 'U';
      for (int digit = width - 1; digit >= 0; --digit)
        out += digits[next.code_point >> (4 * digit) & 0xF];
      return 1 + next.bytes;
    }
    auto const first = begin + (is_octal ? 1 : 2);
    auto code = std::uint32_t{0};
    std::size_t count = 0;
    for (; count < digits_wanted && first + count < text_.size(); ++count) {
      auto const digit = std::string_view("0123456789abcdef")
                             .find(static_cast<char>(text_[first + count] |
                                                     (text_[first + count] >= 'A' ? 0x20 : 0)));
      if (digit == std::string_view::npos || (is_octal && digit > 7)) break;
      code = code * (is_octal ? 8 : 16) + static_cast<std::uint32_t>(digit);
    }
    if ((!is_octal && count < digits_wanted) || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF))
      fail("the escape " + std::string(text_.substr(begin, 2 + count)) + " is no character");
    utf8::append(out, static_cast<char32_t>(code));
    return first + count - begin;
  }

  std::string source_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  bool at_line_start_ = true;
  std::vector<token> tokens_;
};

}  // namespace

std::vector<token> tokenize(std::string_view source) { return lexer(source).result(); }

}  // namespace mpt::jinja
