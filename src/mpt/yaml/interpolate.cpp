#include <mpt/yaml/document.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <mpt/yaml/nearest.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {
namespace {

class interpolator {
 public:
  interpolator(config_node const& root, config_limits limits) : root_(root), limits_(limits) {}

  [[nodiscard]] config_node resolve(config_node const& node, std::size_t depth = 0) {
    count(node);
    parallel::require(depth <= limits_.depth, node.location, ": nested more than ", limits_.depth,
                      " levels deep after ${...} is replaced");
    if (node.is_scalar()) return resolve_scalar(node, depth);
    config_node result;
    result.type = node.type;
    result.location = node.location;
    result.keys = node.keys;
    result.items.reserve(node.items.size());
    for (config_node const& item : node.items) result.items.push_back(resolve(item, depth + 1));
    return result;
  }

  /// Marks the members of `resolved`, the result of resolving `node`, that no reference and no
  /// alias names. The whole tree must be resolved before.
  void mark_unused(config_node const& node, config_node& resolved) const {
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      config_node const& item = node.items[i];
      if (targets_.contains(&item) || item.has_anchor) continue;
      if (item.is_map() && !item.items.empty())
        mark_unused(item, resolved.items[i]);
      else
        resolved.keys[i].is_unused = !traversed_.contains(&item);
    }
  }

 private:
  [[nodiscard]] config_node resolve_scalar(config_node const& node, std::size_t depth) {
    std::string_view const text = node.text;
    if (text.find("${") == std::string_view::npos) return node;
    if (text.starts_with("${") && text.find('}') == text.size() - 1) {
      auto const name = trimmed(text.substr(2, text.size() - 3));
      config_node value = follow(name, node, depth);
      value.location =
          parallel::concat(value.location, ", by ${", printable(name), "} at ", node.location);
      return value;
    }
    config_node result = node;
    result.is_string = true;
    result.text.clear();
    for (std::size_t offset = 0; offset < text.size();) {
      if (text.substr(offset).starts_with("\\${")) {
        result.text += "${";
        offset += 3;
      } else if (text.substr(offset).starts_with("${")) {
        auto const close = text.find('}', offset);
        parallel::require(close != std::string_view::npos, node.location, ": '", printable(text),
                          "': '${' without '}'");
        auto const name = trimmed(text.substr(offset + 2, close - offset - 2));
        config_node const value = follow(name, node, depth);
        parallel::require(value.is_scalar(), node.location, ": '", printable(text), "': ${",
                          printable(name), "} is ", describe(value), " (", value.location,
                          "); only a scalar can be inside text");
        result.text += value.text;
        parallel::require(result.text.size() <= limits_.scalar, node.location, ": longer than ",
                          limits_.scalar, " bytes after ${...} is replaced");
        offset = close + 1;
      } else {
        result.text += text[offset++];
      }
    }
    count(result);
    return result;
  }

  /// Adds one value without its items to the size.
  void count(config_node const& node) {
    size_.values += 1;
    size_.text += node.text.size();
    for (config_key const& key : node.keys) size_.text += key.name.size();
    check_size(size_, limits_, node.location);
  }

  [[nodiscard]] static std::string trimmed(std::string_view name) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    return std::string(name);
  }

  /// The resolved value that `name` refers to; `reference` is the node that holds the reference.
  [[nodiscard]] config_node follow(std::string const& name, config_node const& reference,
                                   std::size_t depth) {
    parallel::require(name.find(':') == std::string::npos && name.find("${") == std::string::npos &&
                          !name.starts_with('.') && name.find('[') == std::string::npos,
                      reference.location, ": '${", printable(name),
                      "}' is not supported; write the absolute name of a key, as ${variables.x}");
    if (std::find(active_.begin(), active_.end(), name) != active_.end()) {
      std::string chain;
      for (std::string const& link : active_) chain += printable(link) + " -> ";
      parallel::fail(reference.location, ": ${", printable(name), "} refers to itself: ", chain,
                     printable(name));
    }
    parallel::require(active_.size() < limits_.depth, reference.location, ": a chain of more than ",
                      limits_.depth, " ${...}");
    config_node const& target = find(name, reference);
    active_.push_back(name);
    config_node value = resolve(target, depth + 1);
    active_.pop_back();
    return value;
  }

  [[nodiscard]] config_node const& find(std::string_view name, config_node const& reference) {
    config_node const* node = &root_;
    std::string_view remaining_path = name;
    std::string parent;
    while (true) {
      auto const dot = remaining_path.find('.');
      auto const segment = remaining_path.substr(0, dot);
      config_node const* next = nullptr;
      if (node->is_map()) {
        next = node->find(segment);
      } else if (node->is_list()) {
        auto const number = parse_integer(segment);
        if (number && *number >= 0 && static_cast<std::size_t>(*number) < node->items.size())
          next = &node->items[static_cast<std::size_t>(*number)];
      }
      if (next == nullptr) {
        std::vector<std::string> names;
        for (config_key const& key : node->keys) names.push_back(parent + key.name);
        auto const nearest = nearest_name(parent + std::string(segment), names);
        parallel::fail(reference.location, ": ${", printable(name), "} names nothing",
                       nearest.empty() ? "" : "; the nearest is ", printable(nearest));
      }
      node = next;
      traversed_.insert(node);
      if (dot == std::string_view::npos) {
        targets_.insert(node);
        return *node;
      }
      parent.append(segment).append(".");
      remaining_path.remove_prefix(dot + 1);
    }
  }

  config_node const& root_;
  config_limits limits_;
  std::vector<std::string> active_;         ///< references being followed, outermost first
  config_size size_;                        ///< size of all values resolved so far
  std::set<config_node const*> traversed_;  ///< values on the path of a reference
  std::set<config_node const*> targets_;    ///< values at the end of such a path
};

}  // namespace

config_node resolve_references(config_node const& root, config_limits const& limits) {
  interpolator references(root, limits);
  config_node resolved = references.resolve(root);
  for (std::string_view const name : variable_mappings) {
    config_node const* const node = root.find(name);
    if (node != nullptr && node->is_map() && !node->has_anchor)
      references.mark_unused(*node, *resolved.find(name));
  }
  return resolved;
}

}  // namespace mpt
