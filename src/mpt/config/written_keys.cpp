#include <mpt/config/written_keys.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace mpt {

namespace {

written_key key_of_list(std::string const& name, config_node const& list) {
  written_key out{name, "", false, std::vector<written_key>()};
  for (auto const& item : list.items) {
    out.text += (out.text.empty() ? "" : ", ") + item.text;
    out.items->push_back({"", item.text, item.is_string});
  }
  out.text = "[" + out.text + "]";
  return out;
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
    keys.push_back(key_of_list(name, node));
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
