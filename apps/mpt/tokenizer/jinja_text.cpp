#include <mpt/tokenizer/jinja_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

/// Methods of str that are rewritten, with what they become.
constexpr std::array python_methods{"upper",  "lower",  "title", "capitalize", "strip",
                                    "lstrip", "rstrip", "split", "replace"};

[[nodiscard]] constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class jinja_rewriter {
 public:
  explicit jinja_rewriter(std::string_view text) : text_(text) {
    constexpr std::size_t most = std::size_t{1} << 20;
    parallel::require(text.size() <= most, "it has ", text.size(), " bytes, more than ", most);
  }

  [[nodiscard]] std::string result() && {
    while (at_ < text_.size()) {
      auto const here = text_.substr(at_, 2);
      if (here == "{#")
        copy(std::min(text_.find("#}", at_ + 2), text_.size() - 2) + 2);
      else if (here == "{{" || here == "{%")
        tag(here == "{%");
      else
        out_ += text_[at_++];
    }
    return std::move(out_);
  }

 private:
  enum class bracket { group, subscript, braces, method };
  struct opened {
    bracket kind;
    std::size_t operand;                   // where in out_ begins what it is part of
    std::size_t begin;                     // where in out_ its content begins
    std::vector<std::size_t> colons = {};  // of a slice, in out_
  };
  static constexpr auto none = std::string::npos;

  void copy(std::size_t until) {
    out_ += text_.substr(at_, until - at_);
    at_ = until;
  }

  /// {{ … }} or {% … %}.
  void tag(bool is_block) {
    std::string_view const end = is_block ? "%}" : "}}";
    copy(at_ + 2);
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) out_ += text_[at_++];
    open_.clear();
    operand_ = items_ = none;
    words_ = 0;
    is_for_ = false;
    while (at_ < text_.size()) {
      auto const rest = text_.substr(at_);
      bool const trims = (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(end);
      if (open_.empty() && (trims || rest.starts_with(end))) {
        end_items();
        return copy(at_ + (trims ? 3 : 2));
      }
      token(is_block);
    }
  }

  void token(bool is_block) {
    char const c = text_[at_];
    if (c == '"' || c == '\'') return string(c);
    if (is_name_character(c)) return word(is_block);
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      out_ += c;
      ++at_;
    } else if (c == '(' || c == '[' || c == '{') {
      open(c);
    } else if (c == ')' || c == ']' || c == '}') {
      close(c);
    } else if (c == '.' && operand_ != none && method()) {
    } else {
      if (c == ':' && !open_.empty() && open_.back().kind == bracket::subscript)
        open_.back().colons.push_back(out_.size());
      if (c != '.') operand_ = none;
      filtered_ = c == '|';
      out_ += c;
      ++at_;
    }
  }

  void open(char c) {
    constexpr std::size_t deepest = 200;
    parallel::require(open_.size() < deepest, "brackets are nested more than ", deepest, " deep");
    bool const subscript = c == '[' && operand_ != none;
    auto const operand = c == '{' || operand_ == none ? out_.size() : operand_;
    out_ += c;
    ++at_;
    open_.push_back({subscript  ? bracket::subscript
                     : c == '{' ? bracket::braces
                                : bracket::group,
                     operand, out_.size()});
    operand_ = none;
    filtered_ = false;
  }

  void close(char c) {
    out_ += c;
    ++at_;
    operand_ = none;
    if (open_.empty()) return;
    auto const last = open_.back();
    open_.pop_back();
    if (last.kind == bracket::subscript && c == ']') subscript(last);
    if (last.kind == bracket::method) out_ += ')';
    operand_ = last.operand;
  }

  /// base[index] is complete in out_.
  void subscript(opened const& place) {
    auto const index = out_.substr(place.begin, out_.size() - 1 - place.begin);
    auto const base = out_.substr(place.operand, place.begin - 1 - place.operand);
    bool const constant = index.find_first_not_of(" \t\n\r") != none &&
                          (index[index.find_first_not_of(" \t\n\r")] == '\'' ||
                           index[index.find_first_not_of(" \t\n\r")] == '"');
    if (constant) return;
    out_.resize(place.operand);
    if (place.colons.empty()) {
      out_ += "(py_item(" + base + ", " + index + "))";
      return;
    }
    out_ += "(py_slice(" + base;
    auto begin = std::size_t{0};
    for (std::size_t part = 0; part < 3; ++part) {
      bool const there = part <= place.colons.size();
      auto const end = part < place.colons.size() ? place.colons[part] - place.begin : index.size();
      auto const text = there ? index.substr(begin, end - begin) : std::string();
      out_ += ", " + (text.find_first_not_of(" \t\n\r") == none ? "none" + text : text);
      begin = std::min(end + 1, index.size());
    }
    out_ += "))";
  }

  /// .name( of a method that is rewritten; false: it is none.
  [[nodiscard]] bool method() {
    auto begin = at_ + 1;
    auto const skip = [&](std::size_t& at) {
      while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\n')) ++at;
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
    at_ = opening + 1;
    auto next = at_;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\n')) ++next;
    if (next < text_.size() && text_[next] != ')') out_ += ", ";
    open_.push_back({bracket::method, start, out_.size()});
    operand_ = none;
    return true;
  }

  void word(bool is_block) {
    auto const begin = out_.size();
    auto const start = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) out_ += text_[at_++];
    auto const name = text_.substr(start, at_ - start);
    bool const number = name[0] >= '0' && name[0] <= '9';
    if (number && at_ + 1 < text_.size() && text_[at_] == '.' && text_[at_ + 1] >= '0' &&
        text_[at_ + 1] <= '9')  // its fraction
      for (out_ += text_[at_++]; at_ < text_.size() && is_name_character(text_[at_]);)
        out_ += text_[at_++];
    bool const first = ++words_ == 1;
    bool const attribute = operand_ != none && out_[begin - 1] == '.';
    if (attribute) return;
    operand_ = none;
    if (is_block && first) {
      is_for_ = name == "for";
      return;
    }
    if (is_for_ && open_.empty() && items_ == none && name == "in") {
      out_ += " py_items(";
      items_ = out_.size();
      return;
    }
    if (is_for_ && open_.empty() && items_ != none && (name == "if" || name == "recursive")) {
      out_.resize(begin);
      end_items();
      out_ += " " + std::string(name);
      return;
    }
    constexpr std::array operators{"and", "or", "not", "in", "is", "if", "else"};
    bool const is_operator = std::ranges::find(operators, name) != operators.end();
    if (!is_operator && !filtered_) operand_ = begin;
    filtered_ = false;
  }

  void end_items() {
    if (is_for_ && items_ != none) out_ += ")";
    is_for_ = false;
  }

  void string(char quote) {
    operand_ = out_.size();
    filtered_ = false;
    out_ += text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        out_ += text_[at_++];
      } else if (!escape()) {
        out_ += text_[at_++];
        if (at_ < text_.size()) out_ += text_[at_++];
      }
    }
    if (at_ < text_.size()) out_ += text_[at_++];
  }

  /// \xHH, \uHHHH and \UHHHHHHHH; false: another escape.
  [[nodiscard]] bool escape() {
    auto const kind = text_.substr(at_ + 1, 1);
    std::size_t const digits = kind == "x" ? 2 : kind == "u" ? 4 : kind == "U" ? 8 : 0;
    auto const hex = text_.substr(std::min(at_ + 2, text_.size()), digits);
    if (digits == 0 || hex.size() < digits ||
        hex.find_first_not_of("0123456789abcdefABCDEF") != none)
      return false;
    auto const code = std::stoul(std::string(hex), nullptr, 16);
    parallel::require(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF), "the escape \\", kind,
                      hex, " is no character");
    at_ += 2 + digits;
    if (code == '\'' || code == '"' || code == '\\') out_ += '\\';
    utf8::append(out_, static_cast<char32_t>(code));
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<opened> open_;
  std::size_t operand_ = none;  // where in out_ begins the operand just complete
  std::size_t items_ = none;    // where in out_ begins what a for goes through
  std::size_t words_ = 0;       // of this tag so far
  bool is_for_ = false;
  bool filtered_ = false;  // a | is in front
};

}  // namespace

std::string jinja_by_code_points(std::string_view text) { return jinja_rewriter(text).result(); }

}  // namespace mpt
