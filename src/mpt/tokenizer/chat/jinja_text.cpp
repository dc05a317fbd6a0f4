#include <mpt/tokenizer/chat/jinja_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

/// Methods of str that are rewritten: "upper" becomes py_upper.
constexpr std::array python_methods{"upper",  "lower",  "title", "capitalize", "strip",
                                    "lstrip", "rstrip", "split", "replace"};

[[nodiscard]] constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class jinja_rewriter {
 public:
  explicit jinja_rewriter(std::string_view text) : text_(text) {
    constexpr std::size_t max_bytes = std::size_t{1} << 20;
    parallel::require(text.size() <= max_bytes, "it has ", text.size(), " bytes, more than ",
                      max_bytes);
  }

  [[nodiscard]] std::string result() && {
    while (position_ < text_.size()) {
      auto const delimiter = text_.substr(position_, 2);
      if (delimiter == "{#")
        copy(std::min(text_.find("#}", position_ + 2), text_.size() - 2) + 2);
      else if (delimiter == "{{" || delimiter == "{%")
        rewrite_tag(delimiter == "{%");
      else
        out_ += text_[position_++];
    }
    return std::move(out_);
  }

 private:
  enum class bracket { group, subscript, braces, method };
  struct open_bracket {
    bracket kind;
    std::size_t operand;  // start in out_ of the operand that the bracket belongs to
    std::size_t begin;    // start in out_ of its content
    std::vector<std::size_t> colons = {};  // of a slice, positions in out_
  };
  static constexpr auto none = std::string::npos;

  void copy(std::size_t end) {
    out_ += text_.substr(position_, end - position_);
    position_ = end;
  }

  void rewrite_tag(bool is_block) {
    std::string_view const end = is_block ? "%}" : "}}";
    copy(position_ + 2);
    if (position_ < text_.size() && (text_[position_] == '-' || text_[position_] == '+'))
      out_ += text_[position_++];
    open_brackets_.clear();
    operand_ = items_ = none;
    word_count_ = 0;
    is_for_ = false;
    while (position_ < text_.size()) {
      auto const rest = text_.substr(position_);
      bool const trims = (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(end);
      if (open_brackets_.empty() && (trims || rest.starts_with(end))) {
        end_items();
        return copy(position_ + (trims ? 3 : 2));
      }
      rewrite_token(is_block);
    }
  }

  void rewrite_token(bool is_block) {
    char const c = text_[position_];
    if (c == '"' || c == '\'') return rewrite_string(c);
    if (is_name_character(c)) return rewrite_word(is_block);
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      out_ += c;
      ++position_;
    } else if (c == '(' || c == '[' || c == '{') {
      begin_bracket(c);
    } else if (c == ')' || c == ']' || c == '}') {
      end_bracket(c);
    } else if (c == '.' && operand_ != none && rewrite_method()) {
    } else {
      if (c == ':' && !open_brackets_.empty() && open_brackets_.back().kind == bracket::subscript)
        open_brackets_.back().colons.push_back(out_.size());
      if (c != '.') operand_ = none;
      is_after_pipe_ = c == '|';
      out_ += c;
      ++position_;
    }
  }

  void begin_bracket(char c) {
    constexpr std::size_t max_depth = 200;
    parallel::require(open_brackets_.size() < max_depth, "brackets are nested more than ",
                      max_depth, " deep");
    bool const is_subscript = c == '[' && operand_ != none;
    auto const operand = c == '{' || operand_ == none ? out_.size() : operand_;
    out_ += c;
    ++position_;
    open_brackets_.push_back({is_subscript ? bracket::subscript
                              : c == '{'   ? bracket::braces
                                           : bracket::group,
                              operand, out_.size()});
    operand_ = none;
    is_after_pipe_ = false;
  }

  void end_bracket(char c) {
    out_ += c;
    ++position_;
    operand_ = none;
    if (open_brackets_.empty()) return;
    auto const last = open_brackets_.back();
    open_brackets_.pop_back();
    if (last.kind == bracket::subscript && c == ']') rewrite_subscript(last);
    if (last.kind == bracket::method) out_ += ')';
    operand_ = last.operand;
  }

  /// Rewrites base[index], which is complete in out_.
  void rewrite_subscript(open_bracket const& subscript) {
    auto const index = out_.substr(subscript.begin, out_.size() - 1 - subscript.begin);
    auto const base = out_.substr(subscript.operand, subscript.begin - 1 - subscript.operand);
    bool const is_constant = index.find_first_not_of(" \t\n\r") != none &&
                             (index[index.find_first_not_of(" \t\n\r")] == '\'' ||
                              index[index.find_first_not_of(" \t\n\r")] == '"');
    if (is_constant) return;
    out_.resize(subscript.operand);
    if (subscript.colons.empty()) {
      out_ += "(py_item(" + base + ", " + index + "))";
      return;
    }
    out_ += "(py_slice(" + base;
    auto begin = std::size_t{0};
    for (std::size_t part = 0; part < 3; ++part) {
      bool const is_given = part <= subscript.colons.size();
      auto const end =
          part < subscript.colons.size() ? subscript.colons[part] - subscript.begin : index.size();
      auto const text = is_given ? index.substr(begin, end - begin) : std::string();
      out_ += ", " + (text.find_first_not_of(" \t\n\r") == none ? "none" + text : text);
      begin = std::min(end + 1, index.size());
    }
    out_ += "))";
  }

  /// Rewrites ".name(" of a method of str. Returns false if the text is anything else.
  [[nodiscard]] bool rewrite_method() {
    auto begin = position_ + 1;
    auto const skip = [&](std::size_t& position) {
      while (position < text_.size() && (text_[position] == ' ' || text_[position] == '\n'))
        ++position;
    };
    skip(begin);
    auto end = begin;
    while (end < text_.size() && is_name_character(text_[end])) ++end;
    auto opening = end;
    skip(opening);
    auto const name = text_.substr(begin, end - begin);
    if (std::ranges::find(python_methods, name) == python_methods.end()) return false;
    if (opening >= text_.size() || text_[opening] != '(') return false;
    auto const base = out_.substr(operand_);
    auto const start = operand_;
    out_.resize(start);
    out_ += "(py_" + std::string(name) + "(" + base;
    position_ = opening + 1;
    auto next = position_;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\n')) ++next;
    if (next < text_.size() && text_[next] != ')') out_ += ", ";
    open_brackets_.push_back({bracket::method, start, out_.size()});
    operand_ = none;
    return true;
  }

  void rewrite_word(bool is_block) {
    auto const begin = out_.size();
    auto const start = position_;
    while (position_ < text_.size() && is_name_character(text_[position_]))
      out_ += text_[position_++];
    auto const name = text_.substr(start, position_ - start);
    bool const is_number = name[0] >= '0' && name[0] <= '9';
    if (is_number && position_ + 1 < text_.size() && text_[position_] == '.' &&
        text_[position_ + 1] >= '0' && text_[position_ + 1] <= '9')  // the fraction of a number
      for (out_ += text_[position_++];
           position_ < text_.size() && is_name_character(text_[position_]);)
        out_ += text_[position_++];
    bool const is_first = ++word_count_ == 1;
    bool const is_attribute = operand_ != none && out_[begin - 1] == '.';
    if (is_attribute) return;
    operand_ = none;
    if (is_block && is_first) {
      is_for_ = name == "for";
      return;
    }
    if (is_for_ && open_brackets_.empty() && items_ == none && name == "in") {
      out_ += " py_items(";
      items_ = out_.size();
      return;
    }
    if (is_for_ && open_brackets_.empty() && items_ != none &&
        (name == "if" || name == "recursive")) {
      out_.resize(begin);
      end_items();
      out_ += " " + std::string(name);
      return;
    }
    constexpr std::array operators{"and", "or", "not", "in", "is", "if", "else"};
    bool const is_operator = std::ranges::find(operators, name) != operators.end();
    if (!is_operator && !is_after_pipe_) operand_ = begin;
    is_after_pipe_ = false;
  }

  void end_items() {
    if (is_for_ && items_ != none) out_ += ")";
    is_for_ = false;
  }

  void rewrite_string(char quote) {
    operand_ = out_.size();
    is_after_pipe_ = false;
    out_ += text_[position_++];
    while (position_ < text_.size() && text_[position_] != quote) {
      if (text_[position_] != '\\') {
        out_ += text_[position_++];
      } else if (!rewrite_escape()) {
        out_ += text_[position_++];
        if (position_ < text_.size()) out_ += text_[position_++];
      }
    }
    if (position_ < text_.size()) out_ += text_[position_++];
  }

  /// Replaces \xHH, \uHHHH and \UHHHHHHHH. Returns false for another escape.
  [[nodiscard]] bool rewrite_escape() {
    auto const kind = text_.substr(position_ + 1, 1);
    std::size_t const digits = kind == "x" ? 2 : kind == "u" ? 4 : kind == "U" ? 8 : 0;
    auto const hex = text_.substr(std::min(position_ + 2, text_.size()), digits);
    if (digits == 0 || hex.size() < digits ||
        hex.find_first_not_of("0123456789abcdefABCDEF") != none)
      return false;
    auto const code = std::stoul(std::string(hex), nullptr, 16);
    parallel::require(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF), "the escape \\", kind,
                      hex, " is no character");
    position_ += 2 + digits;
    if (code == '\'' || code == '"' || code == '\\') out_ += '\\';
    utf8::append(out_, static_cast<char32_t>(code));
    return true;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::string out_;
  std::vector<open_bracket> open_brackets_;
  std::size_t operand_ = none;  // start in out_ of the last complete operand
  std::size_t items_ = none;    // start in out_ of the sequence of a for loop
  std::size_t word_count_ = 0;  // in this tag so far
  bool is_for_ = false;
  bool is_after_pipe_ = false;  // the last token was '|'
};

}  // namespace

std::string jinja_by_code_points(std::string_view text) { return jinja_rewriter(text).result(); }

}  // namespace mpt
