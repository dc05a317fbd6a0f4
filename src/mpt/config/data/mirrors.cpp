#include <mpt/config/data/mirrors.hpp>

#include <cstddef>
#include <set>

namespace mpt {

hub_mirrors read_mirrors(config_reader& parent) {
  hub_mirrors out;
  config_node const* const node = parent.raw("mirrors");
  if (node == nullptr) return out;
  parent.check("mirrors", node->is_map(), "expected a mapping of names to local paths, found ",
               describe(*node));
  for (std::size_t i = 0; i < node->keys.size(); ++i) {
    auto const& path = node->items[i];
    parent.check("mirrors", path.is_scalar() && !path.text.empty(), "expected a local path for '",
                 printable(node->keys[i].name), "', found ", describe(path));
    out[node->keys[i].name] = path.text;
  }
  return out;
}

void report_unused_mirrors(config_reader& parent, config_node const& document,
                           hub_mirrors const& mirrors) {
  std::set<std::string> names;
  auto const collect_names = [&](auto const& self, config_node const& node) -> void {
    if (node.is_scalar()) names.insert(node.text);
    for (config_node const& item : node.items) self(self, item);
  };
  collect_names(collect_names, document);
  for (auto const& mirror : mirrors)
    if (!names.contains(mirror.first))
      parent.report().ignored.push_back({parallel::concat("mirrors.", printable(mirror.first)),
                                         "no value of this configuration equals this name"});
}

std::string mirrored_path(hub_mirrors const& mirrors, std::string const& name) {
  auto const found = mirrors.find(name);
  return found == mirrors.end() ? name : found->second;
}

std::string mirror_advice(std::string_view key, std::string_view name) {
  return parallel::concat(
      name.starts_with("mosaicml/")
          ? "mosaicml's files are no longer on the hub, and nothing is downloaded; get "
            "a copy"
          : "names of the hub are ORG/NAME; else get a copy of it",
      " and give its path by ", key, "=PATH, or for every use of the name by mirrors.",
      printable(name), "=PATH");
}

}  // namespace mpt
