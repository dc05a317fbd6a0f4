#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <utility>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/chat/jinja/lexer.hpp>
#include <mpt/tokenizer/chat/jinja/tree.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace {

constexpr std::size_t max_tree_depth = 250;

/// A parser by recursive descent, with the grammar of jinja2 3.1.
class parser {
 public:
  explicit parser(std::string_view source) : tokens_(tokenize(source)) {}

  [[nodiscard]] std::vector<node> result() {
    auto out = statements({});
    if (!unknown_names_.empty()) throw render_error(unknown_names_.front());
    return out;
  }

 private:
  using names = std::initializer_list<std::string_view>;

  /// Counts the recursion of the parser.
  struct nesting {
    explicit nesting(parser& owner) : depth(owner.depth_) {
      if (++depth > max_tree_depth) owner.fail("it is nested too deep");
    }
    nesting(nesting const&) = delete;
    ~nesting() { --depth; }
    std::size_t& depth;
  };

  [[noreturn]] void fail(std::string const& problem) const {
    throw render_error(problem + ", in line " + std::to_string(current().line));
  }

  [[nodiscard]] token const& current() const { return tokens_[position_]; }
  [[nodiscard]] token const& following() const {
    return tokens_[std::min(position_ + 1, tokens_.size() - 1)];
  }
  [[nodiscard]] bool is_symbol(std::string_view text) const {
    return current().kind == token_kind::symbol && current().text == text;
  }
  [[nodiscard]] bool is_name(std::string_view text) const {
    return current().kind == token_kind::name && current().text == text;
  }
  [[nodiscard]] bool is_name(names texts) const {
    return current().kind == token_kind::name &&
           std::ranges::find(texts, current().text) != texts.end();
  }
  void skip() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  [[nodiscard]] bool skip_symbol(std::string_view text) {
    bool const found = is_symbol(text);
    if (found) skip();
    return found;
  }
  [[nodiscard]] bool skip_name(std::string_view text) {
    bool const found = is_name(text);
    if (found) skip();
    return found;
  }
  [[nodiscard]] std::string description() const {
    switch (current().kind) {
      case token_kind::end: return "the end of the template";
      case token_kind::block_end:
      case token_kind::output_end: return "the end of the tag";
      case token_kind::string: return "the string '" + current().text + "'";
      default: return "'" + current().text + "'";
    }
  }
  void expect_symbol(std::string_view text) {
    if (!skip_symbol(text)) fail("expected '" + std::string(text) + "', found " + description());
  }
  void expect_name(std::string_view text) {
    if (!skip_name(text)) fail("expected '" + std::string(text) + "', found " + description());
  }
  [[nodiscard]] std::string expect_name() {
    if (current().kind != token_kind::name) fail("expected a name, found " + description());
    auto out = current().text;
    skip();
    return out;
  }
  void expect_end(token_kind kind) {
    if (current().kind != kind) fail("expected the end of the tag, found " + description());
    skip();
  }

  [[nodiscard]] node make(node_kind kind, std::size_t line, std::vector<node> children = {},
                          std::string name = {}) const {
    node out{.kind = kind, .line = line, .name = std::move(name), .children = std::move(children)};
    for (auto const& child : out.children) out.depth = std::max(out.depth, child.depth + 1);
    if (out.depth > max_tree_depth) fail("it is nested too deep");
    return out;
  }
  template <class... Children>
  [[nodiscard]] node join(node_kind kind, std::size_t line, std::string name,
                          Children... children) const {
    std::vector<node> nodes;
    (nodes.push_back(std::move(children)), ...);
    return make(kind, line, std::move(nodes), std::move(name));
  }
  [[nodiscard]] static node make_constant(std::size_t line, value constant) {
    node out{.kind = node_kind::constant, .line = line};
    out.constant = std::move(constant);
    return out;
  }

  // statements

  /// Statements up to a tag with one of the names `ends`, which is the current token afterwards.
  [[nodiscard]] std::vector<node> statements(names ends) {
    nesting const guard(*this);
    std::vector<node> out;
    while (current().kind != token_kind::end) {
      auto const& first = current();
      skip();
      if (first.kind == token_kind::data) {
        if (!first.text.empty()) out.push_back(make(node_kind::data, first.line, {}, first.text));
      } else if (first.kind == token_kind::output_begin) {
        out.push_back(join(node_kind::output, first.line, "", tuple()));
        expect_end(token_kind::output_end);
      } else {
        if (is_name(ends)) return out;
        out.push_back(statement());
        expect_end(token_kind::block_end);
      }
    }
    if (ends.size() > 0) fail("the template ends before a tag " + std::string(*ends.begin()));
    return out;
  }

  /// The rest of a tag, and the statements up to the tag that ends its body.
  [[nodiscard]] std::vector<node> body(names ends, bool is_conditional = false) {
    auto const outer = std::exchange(is_conditional_, is_conditional);
    static_cast<void>(skip_symbol(":"));
    expect_end(token_kind::block_end);
    auto out = statements(ends);
    is_conditional_ = outer;
    return out;
  }
  [[nodiscard]] std::vector<node> whole_body(std::string_view end) {
    auto out = body({end});
    skip();
    return out;
  }

  [[nodiscard]] node statement() {
    auto const line = current().line;
    auto const tag = expect_name();
    if (tag == "for") return for_loop(line);
    if (tag == "if") return if_branches(line);
    if (tag == "set") return set(line);
    if (tag == "macro") return macro(line);
    if (tag == "call") return call_block(line);
    if (tag == "filter") {
      auto out = join(node_kind::filter_block, line, "",
                      filter(make(node_kind::captured, line), /*is_named=*/true));
      out.body = whole_body("endfilter");
      return out;
    }
    if (tag == "with") return with_block(line);
    if (tag == "block") return block(line);
    if (tag == "generation") {
      auto out = make(node_kind::generation, line);
      out.body = outside_loops("endgeneration");
      return out;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail("'" + tag + "' outside of a loop");
      return make(tag == "break" ? node_kind::break_loop : node_kind::continue_loop, line);
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends")
      fail("the tag '" + tag + "' needs another file; a chat template is one file");
    fail("unknown tag '" + tag + "'");
  }

  /// A body in a function of its own, which break and continue do not leave.
  [[nodiscard]] std::vector<node> outside_loops(std::string_view end) {
    auto const loops = std::exchange(loops_, 0);
    auto out = whole_body(end);
    loops_ = loops;
    return out;
  }

  [[nodiscard]] node for_loop(std::size_t line) {
    auto target = assignment_target(/*with_namespace=*/false, "in");
    require_no_loop_variable(target);
    expect_name("in");
    auto iterable = tuple(/*with_condition=*/false, "recursive");
    auto out = join(node_kind::for_loop, line, "", std::move(target), std::move(iterable));
    if (skip_name("if")) out.children.push_back(expression());
    out.flag = skip_name("recursive");
    ++loops_;
    out.body = body({"endfor", "else"});
    --loops_;
    bool const has_else = is_name("else");
    skip();
    if (has_else) out.otherwise = whole_body("endfor");
    return out;
  }
  void require_no_loop_variable(node const& target) const {
    if (target.name == "loop") fail("Can't assign to special loop variable in for-loop target");
    for (auto const& child : target.children) require_no_loop_variable(child);
  }

  [[nodiscard]] node if_branches(std::size_t line) {
    auto out = make(node_kind::if_branches, line);
    auto const outer = std::exchange(is_conditional_, true);
    while (true) {
      out.children.push_back(tuple(/*with_condition=*/false));
      auto branch = make(node_kind::statements, line);
      branch.body = body({"elif", "else", "endif"}, /*is_conditional=*/true);
      out.body.push_back(std::move(branch));
      auto const end = expect_name();
      if (end == "else") {
        out.otherwise = body({"endif"}, /*is_conditional=*/true);
        skip();
      }
      if (end != "elif") break;
    }
    is_conditional_ = outer;
    return out;
  }

  [[nodiscard]] node set(std::size_t line) {
    auto target = assignment_target(/*with_namespace=*/true);
    if (skip_symbol("=")) return join(node_kind::set, line, "", std::move(target), tuple());
    auto out = join(node_kind::set_block, line, "", std::move(target));
    if (is_symbol("|")) out.children.push_back(filter(make(node_kind::captured, line), false));
    out.body = whole_body("endset");
    return out;
  }

  [[nodiscard]] std::vector<node> parameters() {
    std::vector<node> out;
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!out.empty()) expect_symbol(",");
      auto const line = current().line;
      auto parameter = make(node_kind::parameter, line, {}, expect_name());
      if (skip_symbol("="))
        parameter.children.push_back(expression());
      else if (!out.empty() && !out.back().children.empty())
        fail("non-default argument follows default argument");
      out.push_back(std::move(parameter));
    }
    skip();
    return out;
  }

  [[nodiscard]] node macro(std::size_t line) {
    auto name = expect_name();
    auto out = make(node_kind::macro, line, parameters(), std::move(name));
    out.body = outside_loops("endmacro");
    return out;
  }

  [[nodiscard]] node call_block(std::size_t line) {
    auto parameter_nodes = is_symbol("(") ? parameters() : std::vector<node>();
    auto out = join(node_kind::call_block, line, "", expression());
    if (out.children.front().kind != node_kind::call) fail("expected a call");
    std::ranges::move(parameter_nodes, std::back_inserter(out.children));
    out.body = outside_loops("endcall");
    return out;
  }

  [[nodiscard]] node with_block(std::size_t line) {
    auto out = make(node_kind::with_block, line);
    while (current().kind != token_kind::block_end) {
      if (!out.children.empty()) expect_symbol(",");
      out.children.push_back(assignment_target(/*with_namespace=*/false));
      expect_symbol("=");
      out.children.push_back(expression());
    }
    out.body = whole_body("endwith");
    return out;
  }

  [[nodiscard]] node block(std::size_t line) {
    auto out = make(node_kind::block, line, {}, expect_name());
    out.flag = skip_name("scoped");
    out.body = outside_loops("endblock");
    static_cast<void>(skip_name(out.name));
    return out;
  }

  [[nodiscard]] node assignment_target(bool with_namespace, std::string_view end = {}) {
    auto const line = current().line;
    std::vector<node> targets;
    bool is_tuple = false;
    while (!is_tuple_end(end)) {
      targets.push_back(primary(with_namespace));
      require_assignable(targets.back());
      if (!skip_symbol(",")) break;
      is_tuple = true;
    }
    if (targets.empty()) fail("expected a name, found " + description());
    return is_tuple ? make(node_kind::tuple, line, std::move(targets)) : std::move(targets.front());
  }
  void require_assignable(node const& target) const {
    if (target.kind == node_kind::tuple)
      for (auto const& item : target.children) require_assignable(item);
    else if (target.kind != node_kind::variable && target.kind != node_kind::namespace_target)
      fail("can't assign to this expression");
  }

  // expressions

  [[nodiscard]] bool is_tuple_end(std::string_view end) const {
    return current().kind == token_kind::output_end || current().kind == token_kind::block_end ||
           is_symbol(")") || (!end.empty() && is_name(end));
  }

  /// An expression, or several between commas.
  [[nodiscard]] node tuple(bool with_condition = true, std::string_view end = {},
                           bool is_in_parentheses = false) {
    auto const line = current().line;
    std::vector<node> items;
    bool is_tuple = false;
    while (!is_tuple_end(end)) {
      items.push_back(with_condition ? expression() : logical_or());
      if (!skip_symbol(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (!is_tuple && !is_in_parentheses) fail("expected an expression, found " + description());
    return make(node_kind::tuple, line, std::move(items));
  }

  [[nodiscard]] node expression() {
    nesting const guard(*this);
    auto const line = current().line;
    auto const unknown_names = unknown_names_.size();
    auto out = logical_or();
    if (!is_name("if")) return out;
    while (skip_name("if")) {
      auto condition = logical_or();
      out = join(node_kind::conditional, line, "", std::move(condition), std::move(out));
      if (!skip_name("else")) continue;
      out.children.push_back(expression());
      out = make(node_kind::conditional, line, std::move(out.children));
    }
    unknown_names_.resize(unknown_names);
    return out;
  }

  /// Operands that `name` joins, from the left.
  template <class Next>
  [[nodiscard]] node joined(std::string_view name, node_kind kind, Next const& next) {
    auto out = next();
    while (is_name(name)) {
      auto const line = current().line;
      skip();
      out = join(kind, line, "", std::move(out), next());
    }
    return out;
  }
  [[nodiscard]] node logical_or() {
    return joined("or", node_kind::logical_or, [this] { return logical_and(); });
  }
  [[nodiscard]] node logical_and() {
    return joined("and", node_kind::logical_and, [this] { return logical_not(); });
  }
  [[nodiscard]] node logical_not() {
    nesting const guard(*this);
    auto const line = current().line;
    if (skip_name("not")) return join(node_kind::logical_not, line, "", logical_not());
    return comparison();
  }

  [[nodiscard]] node comparison() {
    auto const line = current().line;
    auto left = sum();
    std::vector<node> operands;
    while (true) {
      std::string operation;
      if (current().kind == token_kind::symbol &&
          (current().text == "==" || current().text == "!=" || current().text == "<" ||
           current().text == "<=" || current().text == ">" || current().text == ">="))
        operation = current().text;
      else if (is_name("in"))
        operation = "in";
      else if (is_name("not") && following().kind == token_kind::name && following().text == "in")
        operation = "not in";
      if (operation.empty()) break;
      skip();
      if (operation == "not in") skip();
      operands.push_back(join(node_kind::operand, line, operation, sum()));
    }
    if (operands.empty()) return left;
    operands.insert(operands.begin(), std::move(left));
    return make(node_kind::comparison, line, std::move(operands));
  }

  /// Operators of one precedence, from the left.
  template <class Next>
  [[nodiscard]] node operators(names operator_names, Next const& next) {
    auto out = next();
    while (current().kind == token_kind::symbol &&
           std::ranges::find(operator_names, current().text) != operator_names.end()) {
      auto const line = current().line;
      auto operation = current().text;
      skip();
      out = join(node_kind::arithmetic, line, std::move(operation), std::move(out), next());
    }
    return out;
  }
  [[nodiscard]] node sum() {
    return operators({"+", "-"}, [this] { return concatenation(); });
  }
  [[nodiscard]] node concatenation() {
    auto const line = current().line;
    std::vector<node> operands;
    do operands.push_back(product());
    while (skip_symbol("~"));
    return operands.size() == 1 ? std::move(operands.front())
                                : make(node_kind::concatenation, line, std::move(operands));
  }
  [[nodiscard]] node product() {
    return operators({"*", "/", "//", "%"}, [this] {
      return operators({"**"}, [this] { return unary(/*with_filters=*/true); });
    });
  }

  [[nodiscard]] node unary(bool with_filters) {
    nesting const guard(*this);
    auto const line = current().line;
    bool const is_negative = is_symbol("-");
    node out = [&] {
      if (!is_negative && !is_symbol("+")) return primary(/*with_namespace=*/false);
      skip();
      return join(node_kind::sign, line, is_negative ? "-" : "+", unary(/*with_filters=*/false));
    }();
    out = postfix(std::move(out));
    return with_filters ? filters_and_tests(std::move(out)) : std::move(out);
  }

  [[nodiscard]] node primary(bool with_namespace) {
    auto const& first = current();
    auto const line = first.line;
    skip();
    if (first.kind == token_kind::name) {
      auto const& name = first.text;
      if (name == "true" || name == "True") return make_constant(line, true);
      if (name == "false" || name == "False") return make_constant(line, false);
      if (name == "none" || name == "None") return make_constant(line, none{});
      if (with_namespace && skip_symbol(".")) {
        auto out = make(node_kind::namespace_target, line, {}, name);
        out.constant = make_text(expect_name());
        return out;
      }
      return make(node_kind::variable, line, {}, name);
    }
    if (first.kind == token_kind::string) {
      auto text = first.text;
      for (; current().kind == token_kind::string; skip()) text += current().text;
      return make_constant(line, make_text(std::move(text)));
    }
    if (first.kind == token_kind::integer || first.kind == token_kind::floating)
      return make_constant(line, number(first));
    if (first.kind == token_kind::symbol && first.text == "(") {
      auto out = tuple(/*with_condition=*/true, {}, /*is_in_parentheses=*/true);
      expect_symbol(")");
      return out;
    }
    if (first.kind == token_kind::symbol && (first.text == "[" || first.text == "{"))
      return list_or_dictionary(first.text == "[", line);
    --position_;
    fail("unexpected " + description());
  }

  [[nodiscard]] value number(token const& digits) const {
    auto const& text = digits.text;
    auto const* const end = text.data() + text.size();
    if (digits.kind == token_kind::floating) {
      double out = 0;
      std::from_chars(text.data(), end, out);
      return out;
    }
    char const prefix = text.size() > 1 ? text[1] : '0';
    int const base = prefix == 'x' || prefix == 'X'   ? 16
                     : prefix == 'o' || prefix == 'O' ? 8
                     : prefix == 'b' || prefix == 'B' ? 2
                                                      : 10;
    std::int64_t out = 0;
    auto const result = std::from_chars(text.data() + (base == 10 ? 0 : 2), end, out, base);
    if (result.ec != std::errc()) fail("the number " + text + " is too large");
    return out;
  }

  [[nodiscard]] node list_or_dictionary(bool is_list, std::size_t line) {
    std::string_view const end = is_list ? "]" : "}";
    std::vector<node> items;
    while (!is_symbol(end)) {
      items.push_back(expression());
      if (!is_list) {
        expect_symbol(":");
        items.push_back(expression());
      }
      if (!skip_symbol(",")) break;
    }
    expect_symbol(end);
    return make(is_list ? node_kind::list : node_kind::dictionary, line, std::move(items));
  }

  [[nodiscard]] node postfix(node out) {
    while (true) {
      auto const line = current().line;
      if (skip_symbol("."))
        out = attribute(std::move(out), line);
      else if (skip_symbol("["))
        out = subscript(std::move(out), line);
      else if (is_symbol("("))
        out = call(std::move(out));
      else
        return out;
    }
  }
  [[nodiscard]] node attribute(node base, std::size_t line) {
    if (current().kind == token_kind::integer) {
      auto index = make_constant(line, number(current()));
      skip();
      return join(node_kind::subscript, line, "", std::move(base), std::move(index));
    }
    return join(node_kind::attribute, line, expect_name(), std::move(base));
  }
  [[nodiscard]] node subscript(node base, std::size_t line) {
    std::vector<node> indices;
    while (!is_symbol("]")) {
      if (!indices.empty()) expect_symbol(",");
      indices.push_back(index(line));
    }
    skip();
    auto one = indices.size() == 1 ? std::move(indices.front())
                                   : make(node_kind::tuple, line, std::move(indices));
    return join(node_kind::subscript, line, "", std::move(base), std::move(one));
  }
  /// An index, or a slice with parts that may be missing.
  [[nodiscard]] node index(std::size_t line) {
    std::vector<node> parts;
    auto const add_part = [&] {
      bool const is_missing = is_symbol(":") || is_symbol("]") || is_symbol(",");
      parts.push_back(is_missing ? make_constant(line, none{}) : expression());
    };
    if (is_symbol("]") || is_symbol(",")) return expression();  // an error
    bool const is_slice_without_begin = is_symbol(":");
    add_part();
    if (!is_slice_without_begin && !is_symbol(":")) return std::move(parts.front());
    skip();
    add_part();
    if (skip_symbol(":"))
      add_part();
    else
      parts.push_back(make_constant(line, none{}));
    return make(node_kind::slice, line, std::move(parts));
  }

  [[nodiscard]] node call(node function) {
    auto const line = current().line;
    auto children = call_arguments();
    children.insert(children.begin(), std::move(function));
    return make(node_kind::call, line, std::move(children));
  }
  [[nodiscard]] std::vector<node> call_arguments() {
    std::vector<node> out;
    expect_symbol("(");
    while (!is_symbol(")")) {
      auto const line = current().line;
      auto const last = out.empty() ? node_kind::constant : out.back().kind;
      if (skip_symbol("**")) {
        out.push_back(join(node_kind::mapping_argument, line, "", expression()));
      } else if (skip_symbol("*")) {
        out.push_back(join(node_kind::sequence_argument, line, "", expression()));
      } else if (current().kind == token_kind::name && following().kind == token_kind::symbol &&
                 following().text == "=") {
        auto keyword = expect_name();
        skip();
        out.push_back(join(node_kind::keyword_argument, line, std::move(keyword), expression()));
      } else {
        if (last == node_kind::keyword_argument || last == node_kind::sequence_argument)
          fail("a positional argument follows others");
        out.push_back(expression());
      }
      if (last == node_kind::mapping_argument) fail("an argument follows **");
      if (!skip_symbol(",")) break;
    }
    expect_symbol(")");
    return out;
  }

  void add_unknown(std::string const& kind, std::string const& name) {
    if (is_conditional_) return;
    unknown_names_.push_back("the " + kind + " '" + name + "' is not supported, in line " +
                             std::to_string(current().line));
  }

  [[nodiscard]] std::string dotted_name() {
    auto out = expect_name();
    while (skip_symbol(".")) out += "." + expect_name();
    return out;
  }

  [[nodiscard]] node filters_and_tests(node out) {
    while (true) {
      if (is_symbol("|"))
        out = filter(std::move(out), /*is_named=*/false);
      else if (is_name("is"))
        out = test(std::move(out));
      else if (is_symbol("("))
        out = call(std::move(out));
      else
        return out;
    }
  }
  /// The filters behind an operand. In a tag {% filter name %} the first has no |.
  [[nodiscard]] node filter(node operand, bool is_named) {
    while (is_named || skip_symbol("|")) {
      is_named = false;
      auto const line = current().line;
      auto name = dotted_name();
      if (find_filter(name) == nullptr) add_unknown("filter", name);
      auto children = is_symbol("(") ? call_arguments() : std::vector<node>();
      children.insert(children.begin(), std::move(operand));
      operand = make(node_kind::filter, line, std::move(children), std::move(name));
    }
    return operand;
  }
  [[nodiscard]] node test(node operand) {
    auto const line = current().line;
    skip();
    bool const is_negated = skip_name("not");
    auto name = dotted_name();
    if (find_test(name) == nullptr) add_unknown("test", name);
    std::vector<node> children;
    bool const is_literal =
        current().kind == token_kind::name || current().kind == token_kind::string ||
        current().kind == token_kind::integer || current().kind == token_kind::floating ||
        is_symbol("[") || is_symbol("{");
    if (is_symbol("(")) {
      children = call_arguments();
    } else if (is_literal && !is_name({"else", "or", "and"})) {
      if (is_name("is")) fail("You cannot chain multiple tests with is");
      children.push_back(postfix(primary(/*with_namespace=*/false)));
    }
    children.insert(children.begin(), std::move(operand));
    auto out = make(node_kind::test, line, std::move(children), std::move(name));
    return is_negated ? join(node_kind::logical_not, line, "", std::move(out)) : std::move(out);
  }

  std::vector<token> tokens_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  std::size_t loops_ = 0;  // that the current tag is in
  bool is_conditional_ = false;
  // Errors about unknown filters and tests; below a condition they are errors only when reached.
  std::vector<std::string> unknown_names_;
};

}  // namespace

node parse(std::string_view source) {
  constexpr std::size_t max_bytes = std::size_t{1} << 20;
  if (source.size() > max_bytes)
    throw render_error("it has " + std::to_string(source.size()) + " bytes, more than " +
                       std::to_string(max_bytes));
  if (!utf8::is_valid(source)) throw render_error("it is not UTF-8");
  node tree{.kind = node_kind::statements, .line = 1};
  tree.body = parser(source).result();
  mark_names(tree);
  return tree;
}

}  // namespace mpt::jinja
