#include <mpt/yaml/document.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include <mpt/yaml/nearest.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {
namespace {

/// The mapping whose keys are names of models and data sets, in which dots are common.
constexpr std::string_view mapping_of_names = "mirrors.";

void merge_into(config_node& target, config_node value) {
  if (!target.is_map() || !value.is_map()) {
    target = std::move(value);
    return;
  }
  for (std::size_t i = 0; i < value.keys.size(); ++i) {
    if (config_node* const member = target.find(value.keys[i].name))
      merge_into(*member, std::move(value.items[i]));
    else
      target.set(std::move(value.keys[i]), std::move(value.items[i]));
  }
}

/// Refuses a variable that the command line sets and no reference uses: it would change nothing.
void refuse_unused(config_node const& resolved) {
  for (std::string_view const root : variable_mappings) {
    config_node const* const node = resolved.find(root);
    if (node == nullptr || !node->is_map()) continue;
    std::vector<std::string> referred_names;
    for_each_leaf(*node, "", [&](std::string const& name, config_key const& key, auto const&) {
      if (!key.is_unused) referred_names.push_back(name);
    });
    for_each_leaf(
        *node, "", [&](std::string const& name, config_key const& key, config_node const& value) {
          if (!key.is_unused || !value.location.ends_with(command_line)) return;
          auto const nearest = nearest_name(name, referred_names);
          auto const advice = nearest.empty()
                                  ? std::string("leave it out")
                                  : parallel::concat("did you mean '", root, ".", nearest, "'?");
          parallel::fail(command_line, ": ", root, ".", printable(name),
                         ": nothing refers to it, so it would change nothing; ", advice);
        });
  }
}

}  // namespace

void apply_override(config_node& root, std::string_view text, config_limits const& limits) {
  std::string const location(command_line);
  auto const equals = text.find('=');
  parallel::require(equals != std::string_view::npos && equals > 0, location, ": '",
                    printable(text), "' is not key=value");
  std::string_view remaining_path = text.substr(0, equals);
  config_node value = parse_yaml(text.substr(equals + 1), location, limits);
  config_node* node = &root;
  std::size_t depth = 0;
  while (true) {
    parallel::require(++depth <= limits.depth, location, ": '", printable(text),
                      "' is nested more than ", limits.depth, " levels deep");
    bool const is_whole_name = depth == 2 && text.starts_with(mapping_of_names);
    auto const dot = is_whole_name ? std::string_view::npos : remaining_path.find('.');
    std::string const segment(remaining_path.substr(0, dot));
    parallel::require(!segment.empty(), location, ": '", printable(text),
                      "': a part of the key is empty");
    if (node->is_null()) node->type = config_node::kind::map;
    config_node* next = nullptr;
    if (node->is_list()) {
      auto const number = parse_integer(segment);
      parallel::require(
          number && *number >= 0 && static_cast<std::size_t>(*number) < node->items.size(),
          location, ": '", printable(text), "': '", printable(segment),
          "' is no item of the list at ", node->location, ", which has ", node->items.size());
      next = &node->items[static_cast<std::size_t>(*number)];
    } else {
      parallel::require(node->is_map(), location, ": '", printable(text), "': '",
                        printable(segment), "' cannot be set inside ", describe(*node), " (",
                        node->location, ")");
      if (node->find(segment) == nullptr) {
        config_node empty;
        empty.location = location;
        node->set({segment, location}, std::move(empty));
      }
      next = node->find(segment);
    }
    node = next;
    if (dot == std::string_view::npos) break;
    remaining_path.remove_prefix(dot + 1);
  }
  merge_into(*node, std::move(value));
}

config_node make_document(std::string_view text, std::string const& source,
                          std::span<std::string const> overrides, config_limits const& limits) {
  config_node root = parse_yaml(text, source, limits);
  if (root.is_null()) root.type = config_node::kind::map;
  parallel::require(root.is_map(), root.location, ": expected `key: value` lines, found ",
                    describe(root));
  for (std::string const& text_of_override : overrides)
    apply_override(root, text_of_override, limits);
  config_node resolved = resolve_references(root, limits);
  refuse_unused(resolved);
  resolved.location = source;
  return resolved;
}

config_node load_document(std::filesystem::path const& path, std::span<std::string const> overrides,
                          config_limits const& limits) {
  return make_document(read_small_file(path, limits), path.filename().string(), overrides, limits);
}

}  // namespace mpt
