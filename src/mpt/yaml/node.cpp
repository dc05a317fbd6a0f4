#include <mpt/yaml/node.hpp>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <parallel/core/file.hpp>

namespace mpt {

config_node const* config_node::find(std::string_view name) const {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].name == name) return &items[i];
  return nullptr;
}

config_node* config_node::find(std::string_view name) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].name == name) return &items[i];
  return nullptr;
}

void config_node::set(config_key key, config_node value) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].name == key.name) {
      keys[i] = std::move(key);
      items[i] = std::move(value);
      return;
    }
  keys.push_back(std::move(key));
  items.push_back(std::move(value));
}

void add_size(config_node const& node, config_size& size) {
  size.values += 1;
  size.text += node.text.size();
  for (config_key const& key : node.keys) size.text += key.name.size();
  for (config_node const& item : node.items) add_size(item, size);
}

void check_size(config_size const& size, config_limits const& limits, std::string const& location) {
  parallel::require(size.values <= limits.values, location, ": more than ", limits.values,
                    " values, aliases and ${...} counted by what they stand for");
  parallel::require(size.text <= limits.text, location, ": more than ", limits.text,
                    " bytes of text, aliases and ${...} counted by what they stand for");
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string shown;
  for (char const character : text.substr(0, longest)) {
    auto const byte = static_cast<unsigned char>(character);
    shown += byte < 0x20 || byte == 0x7f ? '?' : character;
  }
  if (text.size() > longest) {
    // remove a UTF-8 sequence that the limit cuts in the middle
    while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xc0U) == 0x80U)
      shown.pop_back();
    if (!shown.empty() && static_cast<unsigned char>(shown.back()) >= 0xc0U) shown.pop_back();
    shown += "...";
  }
  return shown;
}

std::string describe(config_node const& node) {
  switch (node.type) {
    case config_node::kind::null: return "nothing";
    case config_node::kind::list: return parallel::concat("a list of ", node.items.size());
    case config_node::kind::map: return "a mapping";
    default: break;
  }
  return parallel::concat(node.is_string ? "the string '" : "'", printable(node.text), "'");
}

std::string read_small_file(std::filesystem::path const& path, config_limits const& limits) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    parallel::require(errno != ENOENT && errno != ENOTDIR, path.string(), ": no such file");
    parallel::files::failure(path, "cannot open");
  }
  std::error_code code;
  parallel::require(!std::filesystem::is_directory(path, code), path.string(),
                    ": is a folder; expected a file");
  std::string text(limits.bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  parallel::require(!stream.bad(), path.string(), ": reading failed");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  parallel::require(text.size() <= limits.bytes, path.string(), ": more than ", limits.bytes,
                    " bytes, too long for a configuration");
  return text;
}

}  // namespace mpt
