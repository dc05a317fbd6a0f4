#include <mpt/tokenizer/chat/jinja/evaluator.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>

namespace mpt::jinja {
namespace {

/// The variables that statements set, within those of the statements around them.
struct scope {
  std::shared_ptr<scope> parent{};
  std::vector<std::pair<std::string, value>> variables{};
  bool is_captured = false;  ///< by a macro

  void set(std::string const& name, value assigned) {
    for (auto& [other, current] : variables)
      if (other == name) {
        current = std::move(assigned);
        return;
      }
    variables.emplace_back(name, std::move(assigned));
  }
};
using scope_pointer = std::shared_ptr<scope>;

/// How statements end: at their last one, or at break or continue.
enum class ending : std::uint8_t { complete, at_break, at_continue };

/// The state of a loop, which `loop` shows to its body.
struct loop_state {
  std::vector<value> items{};
  std::size_t index = 0;
  std::optional<value> last_changed{};
};

class evaluator {
 public:
  explicit evaluator(std::chrono::local_seconds date) : environment_{.date = date} {}
  evaluator(evaluator const&) = delete;
  ~evaluator() {  // macros and namespaces may hold each other
    std::vector<value> values;
    for (auto const& one : captured_scopes_)
      for (auto& [name, held] : std::exchange(one->variables, {}))
        values.push_back(std::move(held));
    for (auto const& one : namespaces_)
      for (auto& [name, held] : std::exchange(one->fields->entries, {}))
        values.push_back(std::move(held));
  }

  [[nodiscard]] std::string render(node const& tree, value const& variables) {
    auto const context = std::make_shared<scope>();
    for (auto const& [name, item] : variables.dictionary()->entries)
      context->set(*name.string(), item);
    top_ = open_scope(tree, context);
    try {
      execute(tree.body, top_);
    } catch (render_error const& problem) {
      throw render_error(problem.what() + (", in line " + std::to_string(line_)));
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t max_depth = 1000;

  /// Counts the recursion of the evaluator.
  struct nesting {
    explicit nesting(evaluator& owner) : depth(owner.depth_) {
      if (++depth > max_depth) {
        --depth;
        throw render_error("it recurses too deep");
      }
    }
    nesting(nesting const&) = delete;
    ~nesting() { --depth; }
    std::size_t& depth;
  };

  /// The scope of a statement's body.
  [[nodiscard]] static scope_pointer open_scope(node const& owner, scope_pointer const& parent) {
    return std::make_shared<scope>(scope{parent, owner.unset});
  }

  // statements

  ending execute(std::vector<node> const& statements, scope_pointer const& variables) {
    for (auto const& statement : statements)
      if (auto const end = execute(statement, variables); end != ending::complete) return end;
    return ending::complete;
  }

  ending execute(node const& statement, scope_pointer const& variables) {
    nesting const guard(*this);
    enter(statement);
    auto const inner = [&] { return open_scope(statement, variables); };
    switch (statement.kind) {
      case node_kind::data: write(statement.name); break;
      case node_kind::output:
        for (auto const& child : statement.children) write(evaluate(child, variables));
        break;
      case node_kind::for_loop: {
        auto items = iterate_with_cost(evaluate(statement.children[1], variables));
        return loop(statement, std::move(items), variables, 0);
      }
      case node_kind::if_branches: return if_branches(statement, variables);
      case node_kind::set:
        assign_target(statement.children[0], evaluate(statement.children[1], variables), variables);
        break;
      case node_kind::set_block:
      case node_kind::filter_block: return capture_block(statement, variables);
      case node_kind::macro:
        variables->set(statement.name, macro(statement, 0, statement.name, variables));
        break;
      case node_kind::call_block: call_block(statement, variables); break;
      case node_kind::generation: return execute(statement.body, inner());
      case node_kind::with_block: return with_block(statement, inner(), variables);
      case node_kind::block:
        return execute(statement.body, open_scope(statement, statement.flag ? variables : top_));
      case node_kind::break_loop: return ending::at_break;
      case node_kind::continue_loop: return ending::at_continue;
      default: break;
    }
    return ending::complete;
  }

  void enter(node const& current) {
    constexpr std::size_t node_work = 32;
    environment_.work.spend(node_work);
    line_ = current.line;
  }

  void write(std::string const& text) {
    environment_.work.spend(text.size());
    out_ += text;
  }
  void write(value const& printed) {
    if (auto const* const string = printed.string()) return write(*string);
    environment_.work.spend(weight(printed));
    write(to_string(printed));
  }

  [[nodiscard]] std::vector<value> iterate_with_cost(value const& operand) {
    if (operand.items() != nullptr || operand.dictionary() != nullptr || operand.is_text())
      environment_.work.spend(weight(operand));
    return iterate(operand);
  }

  ending if_branches(node const& statement, scope_pointer const& variables) {
    for (std::size_t branch = 0; branch < statement.children.size(); ++branch)
      if (is_true(evaluate(statement.children[branch], variables)))
        return execute(statement.body[branch].body, variables);
    return execute(statement.otherwise, variables);
  }

  ending loop(node const& statement, std::vector<value> items, scope_pointer const& variables,
              std::size_t depth) {
    auto const& target = statement.children[0];
    if (statement.children.size() > 2)
      std::erase_if(items, [&](value const& item) {
        auto const test_variables = std::make_shared<scope>(scope{variables});
        assign_target(target, item, test_variables);
        return !is_true(evaluate(statement.children[2], test_variables));
      });
    auto const state = std::make_shared<loop_state>();
    state->items = std::move(items);
    auto const shown = show_loop(statement, state, variables, depth);
    bool is_complete = false;  // jinja2: the rest of a body that is left does not count
    for (; state->index < state->items.size(); ++state->index) {
      constexpr std::size_t scope_work = 128;
      environment_.work.spend(scope_work);
      auto const inner = open_scope(statement, variables);
      assign_target(target, state->items[state->index], inner);
      inner->set("loop", shown);
      auto const end = execute(statement.body, inner);
      if (end == ending::at_break) break;
      is_complete = is_complete || end == ending::complete;
    }
    if (!is_complete) execute(statement.otherwise, std::make_shared<scope>(scope{variables}));
    return ending::complete;
  }

  /// The variable `loop`.
  [[nodiscard]] value show_loop(node const& statement, std::shared_ptr<loop_state> const& state,
                                scope_pointer const& variables, std::size_t depth) {
    auto out = std::make_shared<object>();
    out->description = "<LoopContext>";
    out->attribute = [state, depth](std::string_view name) -> std::optional<value> {
      auto const index = static_cast<std::int64_t>(state->index);
      auto const size = static_cast<std::int64_t>(state->items.size());
      if (name == "index") return index + 1;
      if (name == "index0") return index;
      if (name == "revindex") return size - index;
      if (name == "revindex0") return size - index - 1;
      if (name == "first") return index == 0;
      if (name == "last") return index + 1 >= size;
      if (name == "length") return size;
      if (name == "depth") return static_cast<std::int64_t>(depth) + 1;
      if (name == "depth0") return static_cast<std::int64_t>(depth);
      if (name == "previtem")
        return index == 0 ? make_undefined("there is no previous item")
                          : state->items[state->index - 1];
      if (name == "nextitem")
        return index + 1 >= size ? make_undefined("there is no next item")
                                 : state->items[state->index + 1];
      if (name == "cycle")
        return make_function("<bound method cycle>", [state](arguments& args) {
          if (args.positional.empty()) throw render_error("no items for cycling given");
          return args.positional[state->index % args.positional.size()];
        });
      if (name != "changed") return std::nullopt;
      return make_function("<bound method changed>", [state](arguments& args) -> value {
        auto compared = make_sequence(sequence_kind::tuple, args.positional);
        bool const has_changed = !state->last_changed || !equals(*state->last_changed, compared);
        state->last_changed = std::move(compared);
        return has_changed;
      });
    };
    out->call = [this, &statement, variables, depth](arguments& args) -> value {
      if (!statement.flag)
        throw render_error("The loop must have the 'recursive' marker to be called recursively.");
      auto const* const items = bind(args, "loop", {"iterable"}, 1)[0];
      auto text =
          capture([&] { loop(statement, iterate_with_cost(*items), variables, depth + 1); });
      return new_text(environment_, std::move(text));
    };
    out->iteration = [state] {
      std::vector<value> rest;
      while (state->index + 1 < state->items.size()) rest.push_back(state->items[++state->index]);
      return rest;
    };
    value shown = out;
    for (auto const& item : state->items) shown = holding(std::move(shown), item);
    return shown;
  }

  void assign_target(node const& target, value const& assigned, scope_pointer const& variables) {
    if (target.kind == node_kind::variable) {
      variables->set(target.name, assigned);
    } else if (target.kind == node_kind::namespace_target) {
      auto const owner = lookup(target.name, variables);
      if (owner.other() == nullptr || !owner.other()->fields)
        throw render_error("cannot assign attribute on non-namespace object");
      assign(*owner.other()->fields, target.constant, assigned);
    } else {
      auto const items = iterate_with_cost(assigned);
      if (items.size() != target.children.size())
        throw render_error("cannot unpack " + std::to_string(items.size()) + " values into " +
                           std::to_string(target.children.size()) + " names");
      for (std::size_t i = 0; i < items.size(); ++i)
        assign_target(target.children[i], items[i], variables);
    }
  }

  /// The text that `work` writes.
  template <class Work>
  [[nodiscard]] std::string capture(Work const& work) {
    auto outer = std::exchange(out_, {});
    work();
    return std::exchange(out_, std::move(outer));
  }

  ending capture_block(node const& statement, scope_pointer const& variables) {
    bool const is_set = statement.kind == node_kind::set_block;
    auto const inner = open_scope(statement, variables);
    auto end = ending::complete;
    auto text = new_text(environment_, capture([&] { end = execute(statement.body, inner); }));
    if (end != ending::complete) return end;
    auto const outer_text = std::exchange(captured_text_, text);
    if (statement.children.size() > (is_set ? 1U : 0U))
      text = evaluate(statement.children.back(), inner);
    captured_text_ = outer_text;
    if (is_set)
      assign_target(statement.children[0], text, variables);
    else
      write(require_text(text));
    return ending::complete;
  }

  ending with_block(node const& statement, scope_pointer const& inner,
                    scope_pointer const& variables) {
    for (std::size_t i = 0; i < statement.children.size(); i += 2)
      assign_target(statement.children[i], evaluate(statement.children[i + 1], variables), inner);
    return execute(statement.body, inner);
  }

  /// A macro, whose parameters are the children of a node from `first` on.
  [[nodiscard]] value macro(node const& statement, std::size_t first, std::string const& name,
                            scope_pointer const& variables) {
    for (auto one = variables; one != nullptr && !one->is_captured; one = one->parent) {
      one->is_captured = true;
      captured_scopes_.push_back(one);
    }
    return make_function("<Macro '" + name + "'>",
                         [this, &statement, first, name, variables](arguments& args) {
                           return call_macro(statement, first, name, variables, args);
                         });
  }

  [[nodiscard]] value call_macro(node const& statement, std::size_t first, std::string const& name,
                                 scope_pointer const& variables, arguments& args) {
    auto const inner = open_scope(statement, variables);
    auto const line = line_;
    auto const take_named = [&](std::string const& parameter) -> std::optional<value> {
      auto const found =
          std::ranges::find(args.named, parameter, &std::pair<std::string, value>::first);
      if (found == args.named.end()) return std::nullopt;
      auto out = std::move(found->second);
      args.named.erase(found);
      return out;
    };
    auto const parameter_count = statement.children.size() - first;
    for (std::size_t i = 0; i < parameter_count; ++i) {
      auto const& parameter = statement.children[first + i];
      if (i < args.positional.size())
        inner->set(parameter.name, args.positional[i]);
      else if (auto const named = take_named(parameter.name))
        inner->set(parameter.name, *named);
      else if (!parameter.children.empty())
        inner->set(parameter.name, evaluate(parameter.children[0], inner));
      else
        inner->set(parameter.name,
                   make_undefined("parameter '" + parameter.name + "' was not provided"));
    }
    set_special_parameters(statement, parameter_count, name, *inner, args, take_named("caller"));
    auto text = new_text(environment_, capture([&] { execute(statement.body, inner); }));
    line_ = line;
    return text;
  }

  /// Sets caller, varargs and kwargs, as far as a macro uses them.
  static void set_special_parameters(node const& statement, std::size_t parameter_count,
                                     std::string const& name, scope& variables,
                                     arguments const& args, std::optional<value> const& caller) {
    if (statement.body_uses.caller)
      variables.set("caller", caller ? *caller : make_undefined("No caller defined"));
    else if (caller)
      throw render_error("macro '" + name + "' takes no keyword argument 'caller'");
    if (statement.body_uses.kwargs) {
      std::vector<std::pair<value, value>> entries;
      for (auto const& [keyword, argument] : args.named)
        entries.emplace_back(make_text(keyword), argument);
      variables.set("kwargs", make_mapping(std::move(entries)));
    } else if (!args.named.empty()) {
      throw render_error("macro '" + name + "' takes no keyword argument '" +
                         args.named.front().first + "'");
    }
    auto const surplus = args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                       parameter_count, args.positional.size()));
    if (statement.body_uses.varargs)
      variables.set("varargs",
                    make_sequence(sequence_kind::tuple, {surplus, args.positional.end()}));
    else if (surplus != args.positional.end())
      throw render_error("macro '" + name + "' takes not more than " +
                         std::to_string(parameter_count) + " argument(s)");
  }

  void call_block(node const& statement, scope_pointer const& variables) {
    auto const& called = statement.children[0];
    auto const function = evaluate(called.children[0], variables);
    auto args = call_arguments(called, variables);
    args.named.emplace_back("caller", macro(statement, 1, "caller", variables));
    write(call(function, args));
  }

  // expressions

  [[nodiscard]] value lookup(std::string const& name, scope_pointer const& variables) {
    for (auto const* one = variables.get(); one != nullptr; one = one->parent.get())
      for (auto const& [other, current] : one->variables)
        if (other == name) return current;
    if (name == "namespace")
      return make_function("<class 'Namespace'>",
                           [this](arguments& args) { return make_namespace(args); });
    auto found = find_global(environment_, name);
    return found ? *found : make_undefined("'" + name + "' is undefined");
  }

  [[nodiscard]] value make_namespace(arguments& args) {
    auto const fields = call(*find_global(environment_, "dict"), args);
    for (auto const& [name, item] : fields.dictionary()->entries)
      if (name.is_text() && name.string()->starts_with('_'))
        throw render_error("a namespace has no attributes that begin with _");
    auto out = std::make_shared<object>();
    out->fields = std::make_shared<mapping>(*fields.dictionary());
    out->attribute = [entries = out->fields.get()](std::string_view name) -> std::optional<value> {
      auto const* const found = find(*entries, make_text(std::string(name)));
      return found == nullptr ? std::nullopt : std::optional(*found);
    };
    namespaces_.push_back(out);
    return out;
  }

  [[nodiscard]] std::vector<value> evaluate_all(std::vector<node> const& children,
                                                scope_pointer const& variables) {
    std::vector<value> out;
    for (auto const& child : children) out.push_back(evaluate(child, variables));
    return out;
  }

  [[nodiscard]] value evaluate(node const& expression, scope_pointer const& variables) {
    nesting const guard(*this);
    enter(expression);
    auto const child = [&](std::size_t i) { return evaluate(expression.children[i], variables); };
    switch (expression.kind) {
      case node_kind::constant: return expression.constant;
      case node_kind::variable: return lookup(expression.name, variables);
      case node_kind::captured: return captured_text_;
      case node_kind::list:
      case node_kind::tuple:
        return new_sequence(
            environment_,
            expression.kind == node_kind::list ? sequence_kind::list : sequence_kind::tuple,
            evaluate_all(expression.children, variables));
      case node_kind::dictionary: return dictionary(expression, variables);
      case node_kind::attribute: return get_attribute(environment_, child(0), expression.name);
      case node_kind::subscript: return subscript(expression, variables);
      case node_kind::call: {
        auto const function = child(0);
        auto args = call_arguments(expression, variables);
        line_ = expression.line;
        return call(function, args);
      }
      case node_kind::filter:
      case node_kind::test: return filter_or_test(expression, variables);
      case node_kind::sign: return sign(expression.name, child(0));
      case node_kind::logical_not: return !is_true(child(0));
      case node_kind::logical_and: {
        auto left = child(0);
        return is_true(left) ? child(1) : left;
      }
      case node_kind::logical_or: {
        auto left = child(0);
        return is_true(left) ? left : child(1);
      }
      case node_kind::comparison: return comparison(expression, variables);
      case node_kind::concatenation: return concatenation(expression, variables);
      case node_kind::arithmetic: {
        auto const left = child(0);
        auto const right = child(1);
        return calculate(environment_, expression.name, left, right);
      }
      case node_kind::conditional:
        if (is_true(child(0))) return child(1);
        if (expression.children.size() > 2) return child(2);
        return make_undefined(
            "the inline if-expression evaluated to false and no else section was defined.");
      default: throw render_error("this expression has no value");
    }
  }

  [[nodiscard]] value dictionary(node const& expression, scope_pointer const& variables) {
    auto const items = evaluate_all(expression.children, variables);
    std::vector<std::pair<value, value>> entries;
    for (std::size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
    environment_.work.spend(entries.size() * (entries.size() + 64));
    return make_mapping(std::move(entries));
  }

  [[nodiscard]] value subscript(node const& expression, scope_pointer const& variables) {
    auto const base = evaluate(expression.children[0], variables);
    auto const& index = expression.children[1];
    if (index.kind != node_kind::slice)
      return get_item(environment_, base, evaluate(index, variables));
    auto const parts = evaluate_all(index.children, variables);
    return get_slice(environment_, base, parts[0], parts[1], parts[2]);
  }

  [[nodiscard]] arguments call_arguments(node const& expression, scope_pointer const& variables) {
    arguments out;
    for (std::size_t i = 1; i < expression.children.size(); ++i) {
      auto const& child = expression.children[i];
      bool const has_child = child.kind == node_kind::keyword_argument ||
                             child.kind == node_kind::sequence_argument ||
                             child.kind == node_kind::mapping_argument;
      auto argument = evaluate(has_child ? child.children[0] : child, variables);
      if (child.kind == node_kind::keyword_argument) {
        add_named(out, child.name, std::move(argument));
      } else if (child.kind == node_kind::sequence_argument) {
        for (auto& item : iterate_with_cost(argument)) out.positional.push_back(std::move(item));
      } else if (child.kind == node_kind::mapping_argument) {
        if (argument.dictionary() == nullptr)
          throw render_error("argument after ** must be a mapping, not " + type_name(argument));
        for (auto const& [name, item] : argument.dictionary()->entries) {
          if (!name.is_text()) throw render_error("keywords must be strings");
          add_named(out, *name.string(), item);
        }
      } else {
        out.positional.push_back(std::move(argument));
      }
    }
    environment_.work.spend(16 * (out.positional.size() + out.named.size()));
    return out;
  }
  static void add_named(arguments& args, std::string const& name, value argument) {
    if (std::ranges::find(args.named, name, &std::pair<std::string, value>::first) !=
        args.named.end())
      throw render_error("got multiple values for keyword argument '" + name + "'");
    args.named.emplace_back(name, std::move(argument));
  }

  [[nodiscard]] value filter_or_test(node const& expression, scope_pointer const& variables) {
    bool const is_filter = expression.kind == node_kind::filter;
    auto const function = is_filter ? find_filter(expression.name) : find_test(expression.name);
    if (function == nullptr)
      throw render_error(std::string("the ") + (is_filter ? "filter" : "test") + " '" +
                         expression.name + "' is not supported");
    auto operand = evaluate(expression.children[0], variables);
    auto args = call_arguments(expression, variables);
    args.positional.insert(args.positional.begin(), std::move(operand));
    line_ = expression.line;
    return function(environment_, args);
  }

  [[nodiscard]] value sign(std::string const& operation, value const& operand) {
    require_defined(operand);
    if (!operand.number())
      throw render_error("bad operand type for unary " + operation + ": '" + type_name(operand) +
                         "'");
    return calculate(environment_, operation == "-" ? "*" : "+", operand,
                     std::int64_t{operation == "-" ? -1 : 0});
  }

  [[nodiscard]] value comparison(node const& expression, scope_pointer const& variables) {
    auto left = evaluate(expression.children[0], variables);
    for (std::size_t i = 1; i < expression.children.size(); ++i) {
      auto const& operand = expression.children[i];
      auto right = evaluate(operand.children[0], variables);
      environment_.work.spend(comparison_work(operand.name, left, right));
      if (!compares(operand.name, left, right)) return false;
      left = std::move(right);
    }
    return true;
  }
  /// About the bytes that a comparison reads, by 16; a search may read the needle at each position.
  [[nodiscard]] static std::size_t comparison_work(std::string_view operation, value const& left,
                                                   value const& right) {
    auto const needle = weight(left);
    auto const haystack = weight(right);
    bool const is_search = operation.ends_with("in") && right.is_text() && haystack > needle;
    return (haystack + needle) / 16 + (is_search ? (haystack - needle) * (needle / 64) : 0);
  }
  [[nodiscard]] static bool compares(std::string const& operation, value const& left,
                                     value const& right) {
    if (operation == "==") return equals(left, right);
    if (operation == "!=") return !equals(left, right);
    if (operation == "in") return contains(right, left);
    if (operation == "not in") return !contains(right, left);
    if (operation == "<") return is_less(left, right, operation);
    if (operation == ">") return is_less(right, left, operation);
    if (operation == "<=") return is_less(left, right, operation) || equals(left, right);
    return is_less(right, left, operation) || equals(left, right);
  }

  [[nodiscard]] value concatenation(node const& expression, scope_pointer const& variables) {
    std::string out;
    for (auto const& child : expression.children) {
      auto const operand = evaluate(child, variables);
      environment_.work.spend(weight(operand));
      out += to_string(operand);
    }
    return new_text(environment_, std::move(out));
  }

  environment environment_;
  std::string out_;
  value captured_text_;
  scope_pointer top_;
  std::size_t line_ = 1;
  std::size_t depth_ = 0;
  std::vector<scope_pointer> captured_scopes_;
  std::vector<std::shared_ptr<object>> namespaces_;
};

}  // namespace

std::string render(node const& tree, value const& variables, std::chrono::local_seconds date) {
  return evaluator(date).render(tree, variables);
}

}  // namespace mpt::jinja
