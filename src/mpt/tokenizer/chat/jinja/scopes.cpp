// Finds the variables that have no value at the begin of their scope, and what macros use. jinja2
// decides where a name is looked up before the template runs: a name that a scope sets before it
// reads it is a variable of that scope, even for the inner scopes that read it earlier.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <mpt/tokenizer/chat/jinja/tree.hpp>

namespace mpt::jinja {
namespace {

/// The names of a scope, as jinja2's class Symbols.
struct scope_names {
  scope_names const* parent = nullptr;
  std::set<std::string> known{};                            ///< read or set so far
  std::vector<std::set<std::string>::iterator> sequence{};  ///< `known` as it has grown
  std::vector<std::string> unset{};                         ///< set before they were read

  [[nodiscard]] bool is_known(std::string const& name) const {
    return known.contains(name) || (parent != nullptr && parent->is_known(name));
  }
  void load(std::string const& name) {
    if (!is_known(name)) declare(name);
  }
  void declare(std::string const& name) {
    if (auto const [place, is_new] = known.insert(name); is_new) sequence.push_back(place);
  }
  void store(std::string const& name) {
    if (!is_known(name)) unset.push_back(name);
    declare(name);
  }
};

void read_names(node const& one, scope_names& names);

void store_target(node const& target, scope_names& names, bool is_parameter) {
  if (target.kind == node_kind::namespace_target)
    names.load(target.name);
  else if (target.kind == node_kind::variable && is_parameter)
    names.declare(target.name);
  else if (target.kind == node_kind::variable)
    names.store(target.name);
  for (auto const& item : target.children) store_target(item, names, is_parameter);
}

void read_branches(node const& statement, scope_names& names) {
  for (auto const& condition : statement.children) read_names(condition, names);
  auto const known_before = names.sequence.size();
  auto const unset_before = names.unset.size();
  std::vector<std::string> branch_names;
  auto const read_branch = [&](std::vector<node> const& body) {
    for (auto const& inner : body) read_names(inner, names);
    for (; names.sequence.size() > known_before; names.sequence.pop_back())
      branch_names.push_back(std::move(names.known.extract(names.sequence.back()).value()));
    names.unset.resize(unset_before);  // what one branch sets is looked up outside in the others
  };
  for (auto const& branch : statement.body) read_branch(branch.body);
  read_branch(statement.otherwise);
  for (auto const& name : branch_names) names.declare(name);
}

/// Notes the names that a statement or an expression uses in the scope that it belongs to.
void read_names(node const& one, scope_names& names) {
  switch (one.kind) {
    case node_kind::variable: return names.load(one.name);
    case node_kind::for_loop: return read_names(one.children[1], names);
    case node_kind::if_branches: return read_branches(one, names);
    case node_kind::macro: return names.store(one.name);
    case node_kind::set:
      read_names(one.children[1], names);
      return store_target(one.children[0], names, false);
    case node_kind::set_block: return store_target(one.children[0], names, false);
    case node_kind::with_block:
      for (std::size_t i = 1; i < one.children.size(); i += 2) read_names(one.children[i], names);
      return;
    case node_kind::call_block: return read_names(one.children[0], names);
    case node_kind::block: return;
    default:
      for (auto const& child : one.children) read_names(child, names);
  }
}

void mark_scopes(std::vector<node>& body, scope_names const& names);

/// Marks the scope of a body whose parameters are declared already.
void mark_scope(std::vector<node>& body, scope_names&& names, node* owner) {
  for (auto const& inner : body) read_names(inner, names);
  if (owner != nullptr)
    for (auto const& name : names.unset)
      owner->unset.emplace_back(name, make_undefined("'" + name + "' is undefined"));
  mark_scopes(body, names);
}

/// Marks the scopes within statements of a scope.
void mark_scopes(std::vector<node>& body, scope_names const& names) {
  for (auto& one : body) {
    scope_names inner{&names};
    auto const declare_parameters = [&](std::size_t first) {
      for (auto i = first; i < one.children.size(); ++i) inner.declare(one.children[i].name);
    };
    switch (one.kind) {
      case node_kind::if_branches:
        for (auto& branch : one.body) mark_scopes(branch.body, names);
        mark_scopes(one.otherwise, names);
        break;
      case node_kind::for_loop:
        mark_scope(one.otherwise, {&names}, nullptr);
        store_target(one.children[0], inner, true);
        inner.declare("loop");
        mark_scope(one.body, std::move(inner), &one);
        break;
      case node_kind::macro:
        declare_parameters(0);
        mark_scope(one.body, std::move(inner), &one);
        break;
      case node_kind::call_block:
        declare_parameters(1);
        mark_scope(one.body, std::move(inner), &one);
        break;
      case node_kind::with_block:
        for (std::size_t i = 0; i < one.children.size(); i += 2)
          store_target(one.children[i], inner, true);
        mark_scope(one.body, std::move(inner), &one);
        break;
      case node_kind::set_block:
      case node_kind::filter_block:
      case node_kind::generation: mark_scope(one.body, std::move(inner), &one); break;
      case node_kind::block: mark_scope(one.body, {}, &one); break;
      default: break;
    }
  }
}

/// Marks the nodes' bodies and returns the names that the nodes use.
macro_names mark_uses(std::vector<node>& nodes) {
  macro_names out;
  auto const add = [&](macro_names const& more) {
    out.caller |= more.caller;
    out.kwargs |= more.kwargs;
    out.varargs |= more.varargs;
  };
  for (auto& one : nodes) {
    one.body_uses = mark_uses(one.body);
    add(one.body_uses);
    add(mark_uses(one.children));
    add(mark_uses(one.otherwise));
    if (one.kind == node_kind::variable)
      add({one.name == "caller", one.name == "kwargs", one.name == "varargs"});
  }
  return out;
}

}  // namespace

void mark_names(node& tree) {
  mark_scope(tree.body, {}, &tree);
  static_cast<void>(mark_uses(tree.body));
}

}  // namespace mpt::jinja
