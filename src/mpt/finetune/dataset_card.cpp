#include <mpt/finetune/dataset_card.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include <mpt/yaml/node.hpp>
#include <mpt/yaml/scalar.hpp>
#include <mpt/yaml/yaml.hpp>

namespace mpt::finetune {
namespace {

/// The lines of `configs` in a README's header, preceded by an empty line for each earlier line, so
/// that line numbers in messages are those of the file; "": there are none.
[[nodiscard]] std::string header_configs(std::string_view readme) {
  std::string lines;
  bool inside = false;
  bool found = false;
  for (std::size_t begin = 0; begin < readme.size();) {
    auto const end = std::min(readme.find('\n', begin), readme.size());
    auto line = readme.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    bool const is_first_line = begin == 0;
    begin = end + 1;
    if (is_first_line != (line == "---")) break;  // no header, or its end
    bool const continues_block = line.empty() || line[0] == ' ' || line[0] == '-' || line[0] == '#';
    inside = !is_first_line && (line.starts_with("configs:") || (inside && continues_block));
    found |= inside;
    lines.append(inside ? line : std::string_view()).append("\n");
  }
  return found ? lines : std::string();
}

[[nodiscard]] std::vector<std::string> paths_of(config_node const& node) {
  std::vector<std::string> paths;
  if (node.is_scalar()) paths.push_back(node.text);
  for (auto const& item : node.items) {
    parallel::require(item.is_scalar(), item.location,
                      ": expected a path or a list of paths, found ", describe(item));
    paths.push_back(item.text);
  }
  parallel::require(!paths.empty() && !node.is_map(), node.location,
                    ": expected a path or a list of paths, found ", describe(node));
  return paths;
}

/// The files by split of a list of {split, path}, or of a list of paths, which are all of split
/// train.
[[nodiscard]] std::map<std::string, std::vector<std::string>> card_files(config_node const& node) {
  bool const by_split = node.is_list() && !node.items.empty() && node.items[0].is_map();
  if (!by_split) return {{"train", paths_of(node)}};
  std::map<std::string, std::vector<std::string>> files;
  for (auto const& item : node.items) {
    config_node const* const split = item.find("split");
    config_node const* const path = item.find("path");
    parallel::require(split != nullptr && split->is_scalar() && path != nullptr, item.location,
                      ": expected {split: NAME, path: PATH} in data_files");
    for (auto& path_text : paths_of(*path)) files[split->text].push_back(std::move(path_text));
  }
  return files;
}

[[nodiscard]] card_config read_card_config(config_node const& node) {
  config_node const* const name = node.find("config_name");
  parallel::require(name != nullptr && name->is_scalar(), node.location,
                    ": expected config_name in each of configs");
  card_config config{.name = name->text};
  if (config_node const* const is_default = node.find("default"))
    config.is_default = parse_bool(is_default->text).value_or(false);
  if (config_node const* const folder = node.find("data_dir")) config.data_dir = folder->text;
  if (config_node const* const files = node.find("data_files"))
    config.data_files = card_files(*files);
  return config;
}

}  // namespace

std::optional<card_config> read_dataset_card(std::filesystem::path const& folder,
                                             std::string_view subset) {
  auto const file = folder / "README.md";
  std::error_code unreadable;  // an unreadable file counts as absent
  if (!std::filesystem::is_regular_file(file, unreadable)) return std::nullopt;
  constexpr std::uint64_t longest = std::uint64_t{1} << 24;
  auto const text = header_configs(parallel::read_text_file(file, longest));
  if (text.empty()) return std::nullopt;
  auto const root = parse_yaml(text, file.native());
  config_node const* const list = root.find("configs");
  if (list == nullptr || list->is_null()) return std::nullopt;
  parallel::require(list->is_list() && !list->items.empty(), list->location,
                    ": configs: expected a list of mappings, found ", describe(*list));
  std::vector<card_config> configs;
  for (auto const& item : list->items) configs.push_back(read_card_config(item));
  auto const is_wanted = [&](card_config const& config) {
    if (!subset.empty()) return config.name == subset;
    return configs.size() == 1 || config.name == "default" || config.is_default;
  };
  auto const found = std::ranges::find_if(configs, is_wanted);
  if (found != configs.end()) return std::move(*found);
  std::string names;
  for (auto const& config : configs) names += (names.empty() ? "" : ", ") + config.name;
  parallel::require(subset.empty(), file.native(), ": has no subset \"", subset, "\"; it has ",
                    names);
  parallel::fail(file.native(), ": has the configurations ", names,
                 ", none of which is the default; name one with "
                 "hf_kwargs.name (for prepare: --data_subset), or its files with "
                 "hf_kwargs.data_files");
}

}  // namespace mpt::finetune
