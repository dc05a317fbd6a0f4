// tree: the syntax tree of a chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/tokenizer/chat/jinja/value.hpp>

namespace mpt::jinja {

/// What the children of a node are is said next to its kind; a trailing child in brackets may be
/// missing.
enum class node_kind : std::uint8_t {
  constant,           // value
  variable,           // name
  list,               // items
  tuple,              // items
  dictionary,         // key, value, key, value, ...
  attribute,          // object; name
  subscript,          // object, index
  slice,              // begin, end, step
  call,               // function, arguments
  filter,             // operand, arguments; name
  test,               // operand, arguments; name
  keyword_argument,   // value; name
  sequence_argument,  // *value
  mapping_argument,   // **value
  captured,           // the text that the filter of a block works on
  sign,               // operand; name is - or +
  logical_not,        // operand
  logical_and,        // left, right
  logical_or,         // left, right
  comparison,         // left, operands
  operand,            // right; name is the operator
  concatenation,      // operands
  arithmetic,         // left, right; name is the operator
  conditional,        // condition, value, [other value]
  namespace_target,   // name of the namespace; value is the attribute's name

  data,           // name is the text
  output,         // expressions
  for_loop,       // target, iterable, [condition]; body, otherwise; flag: recursive
  if_branches,    // conditions; body has a node of kind `statements` for each; otherwise
  statements,     // body
  set,            // target, value
  set_block,      // target, [filter]; body
  macro,          // parameters; name, body
  parameter,      // [default]; name
  call_block,     // call, parameters; body
  filter_block,   // filter; body
  with_block,     // target, value, target, value, ...; body
  block,          // name, body; flag: scoped
  generation,     // body
  break_loop,     //
  continue_loop,  //
};

/// The names with a meaning of their own in macros that a body uses.
struct macro_names {
  bool caller = false;
  bool kwargs = false;
  bool varargs = false;
};

/// A statement or an expression of a template.
struct node {
  node_kind kind;
  std::size_t line;
  std::string name{};
  std::vector<node> children{};
  std::vector<node> body{};
  std::vector<node> otherwise{};
  jinja::value constant{};
  bool flag = false;
  std::size_t depth = 1;  ///< of the tree below the node
  /// Variables of the scope of the body that have no value at its begin.
  std::vector<std::pair<std::string, jinja::value>> unset{};
  macro_names body_uses{};
};

/// A template, as a node of kind `statements`. Throws render_error for a syntax error, with its
/// line, and for a template that is too large or too deep.
[[nodiscard]] node parse(std::string_view source);

/// Sets `unset` of all nodes with a scope, and `body_uses` of all nodes.
void mark_names(node& tree);

}  // namespace mpt::jinja
