#include <mpt/yaml/node.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
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

namespace {

/// Reads up to text.size() bytes of a file or pipe and returns their number. A pipe's writer is
/// waited for while it works; one that has not come within seconds is an error.
[[nodiscard]] std::size_t read_whole(int file, std::filesystem::path const& path,
                                     std::span<char> text) {
  constexpr int longest_wait = 5000, interval = 50;  // milliseconds
  std::size_t size = 0;
  for (int waited = 0; size < text.size();) {
    auto const count = ::read(file, text.data() + size, text.size() - size);
    if (count > 0) size += static_cast<std::size_t>(count);
    if (count > 0 || (count < 0 && errno == EINTR)) continue;
    if (count < 0 && errno != EAGAIN) parallel::files::failure(path, "reading failed");
    ::pollfd event{file, POLLIN, 0};
    if (count < 0) {  // the writer has not written more yet
      static_cast<void>(::poll(&event, 1, -1));
      continue;
    }
    struct ::stat status {};
    if (size > 0 || ::fstat(file, &status) != 0 || !S_ISFIFO(status.st_mode)) break;
    parallel::require(waited < longest_wait, path.string(),
                      ": is a pipe into which nobody writes; expected a file, or a pipe with a "
                      "writer");
    waited += interval;
    static_cast<void>(::poll(nullptr, 0, interval));
  }
  return size;
}

}  // namespace

std::string read_small_file(std::filesystem::path const& path, config_limits const& limits) {
  parallel::descriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    parallel::require(errno != ENOENT && errno != ENOTDIR, path.string(), ": no such file");
    parallel::files::failure(path, "cannot open");
  }
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0) parallel::files::failure(path, "cannot open");
  parallel::require(!S_ISDIR(status.st_mode), path.string(), ": is a folder; expected a file");
  parallel::require(S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode), path.string(),
                    ": is a device; expected a file");
  std::string text(limits.bytes + 1, '\0');
  text.resize(read_whole(file.get(), path, text));
  parallel::require(text.size() <= limits.bytes, path.string(), ": more than ", limits.bytes,
                    " bytes, too long for a configuration");
  return text;
}

}  // namespace mpt
