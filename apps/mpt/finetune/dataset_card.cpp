#include <mpt/finetune/dataset_card.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include <mpt/config/node.hpp>
#include <mpt/config/scalar.hpp>
#include <mpt/config/yaml.hpp>

namespace mpt::finetune {
namespace {

/// The lines of `configs` in a README's header, with empty lines for those before, so that places
/// in messages are those of the file; "": there are none.
[[nodiscard]] std::string configs_of_header(std::string_view readme) {
  std::string out;
  bool inside = false;
  bool found = false;
  for (std::size_t begin = 0; begin < readme.size();) {
    auto const end = std::min(readme.find('\n', begin), readme.size());
    auto line = readme.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    bool const first = begin == 0;
    begin = end + 1;
    if (first != (line == "---")) break;  // no header, or its end
    bool const goes_on = line.empty() || line[0] == ' ' || line[0] == '-' || line[0] == '#';
    inside = !first && (line.starts_with("configs:") || (inside && goes_on));
    found |= inside;
    out.append(inside ? line : std::string_view()).append("\n");
  }
  return found ? out : std::string();
}

[[nodiscard]] std::vector<std::string> texts_of(config_node const& node) {
  std::vector<std::string> out;
  if (node.is_scalar()) out.push_back(node.text);
  for (auto const& item : node.items) {
    parallel::require(item.is_scalar(), item.location,
                      ": expected a path or a list of paths, found ", describe(item));
    out.push_back(item.text);
  }
  parallel::require(!out.empty() && !node.is_map(), node.location,
                    ": expected a path or a list of paths, found ", describe(node));
  return out;
}

/// A list of {split, path}; or paths, which are all of split train.
[[nodiscard]] std::map<std::string, std::vector<std::string>> card_files(config_node const& node) {
  bool const by_split = node.is_list() && !node.items.empty() && node.items[0].is_map();
  if (!by_split) return {{"train", texts_of(node)}};
  std::map<std::string, std::vector<std::string>> out;
  for (auto const& item : node.items) {
    config_node const* const split = item.find("split");
    config_node const* const path = item.find("path");
    parallel::require(split != nullptr && split->is_scalar() && path != nullptr, item.location,
                      ": expected {split: NAME, path: PATH} in data_files");
    for (auto& text : texts_of(*path)) out[split->text].push_back(std::move(text));
  }
  return out;
}

[[nodiscard]] card_config read_card_config(config_node const& node) {
  config_node const* const name = node.find("config_name");
  parallel::require(name != nullptr && name->is_scalar(), node.location,
                    ": expected config_name in each of configs");
  card_config out{.name = name->text};
  if (config_node const* const is_default = node.find("default"))
    out.is_default = parse_bool(is_default->text).value_or(false);
  if (config_node const* const folder = node.find("data_dir")) out.data_dir = folder->text;
  if (config_node const* const files = node.find("data_files")) out.data_files = card_files(*files);
  return out;
}

}  // namespace

std::optional<card_config> read_dataset_card(std::filesystem::path const& folder) {
  auto const file = folder / "README.md";
  std::error_code unreadable;  // then it is not there
  if (!std::filesystem::is_regular_file(file, unreadable)) return std::nullopt;
  constexpr std::uint64_t longest = std::uint64_t{1} << 24;
  auto const text = configs_of_header(parallel::read_text_file(file, longest));
  if (text.empty()) return std::nullopt;
  auto const root = parse_yaml(text, file.native());
  config_node const* const list = root.find("configs");
  if (list == nullptr || list->is_null()) return std::nullopt;
  parallel::require(list->is_list() && !list->items.empty(), list->location,
                    ": configs: expected a list of mappings, found ", describe(*list));
  std::vector<card_config> all;
  for (auto const& item : list->items) all.push_back(read_card_config(item));
  std::string names;
  for (auto& one : all) {
    if (all.size() == 1 || one.name == "default" || one.is_default) return std::move(one);
    names += (names.empty() ? "" : ", ") + one.name;
  }
  parallel::fail(file.native(), ": has the configurations ", names,
                 ", none of which is the default; name the files of one with "
                 "hf_kwargs.data_files");
}

}  // namespace mpt::finetune
