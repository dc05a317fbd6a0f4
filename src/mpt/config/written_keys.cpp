#include <mpt/config/written_keys.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace mpt {

namespace {

std::string text_of_list(config_node const& list) {
  std::string out;
  for (auto const& item : list.items) out += (out.empty() ? "" : ", ") + item.text;
  return "[" + out + "]";
}

void add_keys(config_node const& node, std::string const& name, std::vector<written_key>& keys) {
  bool const is_plain =
      std::ranges::all_of(node.items, [](config_node const& item) { return item.is_scalar(); });
  auto const member = [&](std::string const& part) {
    return name.empty() ? part : name + "." + part;
  };
  if (node.is_scalar())
    keys.push_back({name, node.text, node.is_string});
  else if (node.is_list() && is_plain)
    keys.push_back({name, text_of_list(node)});
  else if (node.is_list())
    for (std::size_t i = 0; i < node.items.size(); ++i)
      add_keys(node.items[i], member(std::to_string(i)), keys);
  else if (node.is_map() && !node.items.empty())
    for (std::size_t i = 0; i < node.items.size(); ++i)
      add_keys(node.items[i], member(node.keys[i].name), keys);
  else
    keys.push_back({name, node.is_map() ? "{}" : "null"});
}

}  // namespace

std::vector<written_key> written_keys(config_node const& document) {
  std::vector<written_key> keys;
  if (!document.items.empty()) add_keys(document, "", keys);
  return keys;
}

}  // namespace mpt
