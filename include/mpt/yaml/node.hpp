// config_node: one value of a configuration, with the location where it was written.
//
// It is a plain tree of values rather than yaml-cpp's nodes, because those are shared, mutable
// references (copying one aliases it) and lose their location when values are merged. Here every
// value and key keeps "file:line:column" or "command line", so that a later error can name it.
// Copies are deep; a tree holds at most `config_limits::values` values, so a copy is cheap.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt {

/// Upper limits of a configuration. Files are untrusted: aliases and `${...}` can multiply values.
struct config_limits {
  std::size_t bytes = std::size_t{1} << 20;    ///< of a file
  std::size_t values = 10'000;                 ///< after aliases and interpolation
  std::size_t text = std::size_t{4} << 20;     ///< bytes of all scalars, counted likewise
  std::size_t scalar = std::size_t{16} << 10;  ///< bytes of one scalar
  std::size_t depth = 32;                      ///< of nested lists and mappings
};

/// The key of a mapping's member and the location where it was written.
struct config_key {
  std::string name;
  std::string location;
  bool is_unused = false;  ///< a variable that no ${...} refers to
};

/// A value: nothing, a scalar, a list or a mapping.
struct config_node {
  enum class kind { null, scalar, list, map };

  kind type = kind::null;
  bool is_string = false;        ///< a scalar written in quotes or made by interpolation
  bool has_anchor = false;       ///< written as &name, so that aliases stand for it elsewhere
  std::string text;              ///< of a scalar, as written
  std::string location;          ///< "file:line:column" or "command line"
  std::vector<config_key> keys;  ///< of a mapping: keys[i] belongs to items[i]
  std::vector<config_node> items;

  [[nodiscard]] bool is_null() const { return type == kind::null; }
  [[nodiscard]] bool is_scalar() const { return type == kind::scalar; }
  [[nodiscard]] bool is_list() const { return type == kind::list; }
  [[nodiscard]] bool is_map() const { return type == kind::map; }

  /// The member of that name, or null.
  [[nodiscard]] config_node const* find(std::string_view name) const;
  [[nodiscard]] config_node* find(std::string_view name);

  /// Adds a member or replaces it, with its location.
  void set(config_key key, config_node value);
};

/// Calls f(name, key, value) for each member under `node` that is not a mapping with members; names
/// are dotted and prefixed with `path`.
template <class F>
void for_each_leaf(config_node const& node, std::string const& path, F const& f) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    auto const name =
        path.empty() ? node.keys[i].name : parallel::concat(path, ".", node.keys[i].name);
    if (node.items[i].is_map() && !node.items[i].items.empty())
      for_each_leaf(node.items[i], name, f);
    else
      f(name, node.keys[i], node.items[i]);
  }
}

/// The size of a tree: its values, the root included, and the bytes of its keys and scalars.
struct config_size {
  std::size_t values = 0;
  std::size_t text = 0;
};

/// Adds the size of the tree `node` to `size`.
void add_size(config_node const& node, config_size& size);

/// Fails when `size` is over the limits; `location` begins the message.
void check_size(config_size const& size, config_limits const& limits, std::string const& location);

/// Text for an error message: control characters are shown as '?', long text is cut.
[[nodiscard]] std::string printable(std::string_view text);

/// A value in words, for "expected an integer, found ...".
[[nodiscard]] std::string describe(config_node const& node);

/// The content of a small text file or pipe. Throws when the file is absent, is a folder or a
/// device, or is longer than the limit, and for a pipe into which nobody writes.
[[nodiscard]] std::string read_small_file(std::filesystem::path const& path,
                                          config_limits const& limits = {});

}  // namespace mpt
