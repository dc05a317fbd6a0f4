// mirrors: where what a configuration names by its place on the Hugging Face hub lies on this
// machine. Nothing is downloaded, and what was published under mosaicml/ is no longer there.
//
//   mirrors: {mosaicml/mpt-7b: /models/mpt-7b, mosaicml/dolly_hhrlhf: /data/dolly}
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <mpt/config/node.hpp>
#include <mpt/config/reader.hpp>

namespace mpt {

/// Names on the hub and the local paths that stand in for them.
using hub_mirrors = std::map<std::string, std::string>;

/// Reads our own top-level key `mirrors`.
[[nodiscard]] inline hub_mirrors read_mirrors(config_reader& parent) {
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

/// Says which mirrors stand for a name that nothing in the document has.
inline void say_unused_mirrors(config_reader& parent, config_node const& document,
                               hub_mirrors const& mirrors) {
  std::set<std::string> names;
  auto const gather = [&](auto const& self, config_node const& node) -> void {
    if (node.is_scalar()) names.insert(node.text);
    for (config_node const& item : node.items) self(self, item);
  };
  gather(gather, document);
  for (auto const& mirror : mirrors)
    if (!names.contains(mirror.first))
      parent.report().ignored.push_back(
          {parallel::concat("mirrors.", printable(mirror.first)), "nothing here has that name"});
}

/// The path of `name`: that of its mirror, else itself.
[[nodiscard]] inline std::string mirrored(hub_mirrors const& mirrors, std::string const& name) {
  auto const found = mirrors.find(name);
  return found == mirrors.end() ? name : found->second;
}

/// What to do about a name that is no path on this machine: for the end of a message. `key`: what
/// else may be set to a path.
[[nodiscard]] inline std::string mirror_advice(std::string_view key, std::string_view name) {
  return parallel::concat(
      name.starts_with("mosaicml/")
          ? "what mosaicml published on the hub is gone from there, and nothing is downloaded; get "
            "a copy"
          : "nothing is downloaded; get a copy of it",
      " and give its path by ", key, "=PATH, or for every use of the name by mirrors.",
      printable(name), "=PATH");
}

}  // namespace mpt
