#include <mpt/yaml/document.hpp>

#include <cstddef>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace mpt {
namespace {

/// Builds the tree from events; `source` names the text in locations.
class tree_builder final : public YAML::EventHandler {
 public:
  tree_builder(std::string source, config_limits limits)
      : source_(std::move(source)), limits_(limits) {}

  [[nodiscard]] config_node take() { return std::move(root_); }

  void OnDocumentStart(YAML::Mark const& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(YAML::Mark const& mark, YAML::anchor_t anchor) override {
    config_node node;
    node.location = location_of(mark);
    count(node);
    finish(std::move(node), anchor);
  }
  void OnAlias(YAML::Mark const& mark, YAML::anchor_t anchor) override {
    auto const found = anchors_.find(anchor);
    parallel::require(found != anchors_.end(), location_of(mark),
                      ": an alias refers to the value that contains it");
    add_size(found->second, size_);
    check_size(size_, limits_, location_of(mark));
    finish(found->second, 0);
  }
  void OnScalar(YAML::Mark const& mark, std::string const& tag, YAML::anchor_t anchor,
                std::string const& value) override {
    config_node node;
    node.type = config_node::kind::scalar;
    node.location = location_of(mark);
    check_tag(node, tag);
    parallel::require(value.size() <= limits_.scalar, node.location, ": a scalar of ", value.size(),
                      " bytes; at most ", limits_.scalar, " are read");
    node.is_string = tag == "!";  // yaml-cpp's tag of quoted and block scalars
    node.text = value;
    count(node);
    finish(std::move(node), anchor);
  }
  void OnSequenceStart(YAML::Mark const& mark, std::string const& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(config_node::kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(YAML::Mark const& mark, std::string const& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(config_node::kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct frame {
    config_node node;
    YAML::anchor_t anchor = 0;
    config_key key;
    bool has_key = false;
  };

  [[nodiscard]] std::string location_of(YAML::Mark const& mark) const {
    if (source_ == "command line" || mark.line < 0) return source_;
    return parallel::concat(source_, ":", mark.line + 1, ":", mark.column + 1);
  }

  static void check_tag(config_node const& node, std::string const& tag) {
    parallel::require(tag.empty() || tag == "?" || tag == "!", node.location, ": the tag '",
                      printable(tag), "' is not supported; write a plain value");
  }

  void open(config_node::kind type, YAML::Mark const& mark, std::string const& tag,
            YAML::anchor_t anchor) {
    frame next;
    next.node.type = type;
    next.node.location = location_of(mark);
    next.anchor = anchor;
    check_tag(next.node, tag);
    count(next.node);
    parallel::require(stack_.size() < limits_.depth, next.node.location, ": nested more than ",
                      limits_.depth, " levels deep");
    stack_.push_back(std::move(next));
  }

  void close() {
    frame closed = std::move(stack_.back());
    stack_.pop_back();
    if (closed.node.is_map()) merge_defaults(closed.node);
    finish(std::move(closed.node), closed.anchor);
  }

  /// Replaces `<<: *other` or `<<: [*a, *b]` by the members that the mapping does not have itself.
  void merge_defaults(config_node& map) {
    for (std::size_t i = 0; i < map.keys.size(); ++i) {
      if (map.keys[i].name != "<<") continue;
      config_node const source = std::move(map.items[i]);
      map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(i));
      map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(i));
      if (source.is_list())
        for (config_node const& item : source.items) add_missing(map, item);
      else
        add_missing(map, source);
      return;
    }
  }
  void add_missing(config_node& map, config_node const& source) {
    parallel::require(source.is_map(), source.location, ": '<<' takes a mapping, found ",
                      describe(source));
    for (std::size_t i = 0; i < source.keys.size(); ++i)
      if (map.find(source.keys[i].name) == nullptr) map.set(source.keys[i], source.items[i]);
  }

  void count(config_node const& node) {
    add_size(node, size_);
    check_size(size_, limits_, node.location);
  }

  void finish(config_node node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    node.has_anchor = anchor != 0;
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    frame& parent = stack_.back();
    if (parent.node.is_list()) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      parallel::require(node.is_scalar() && !node.text.empty(), node.location,
                        ": expected the name of a key, found ", describe(node));
      parallel::require(parent.node.find(node.text) == nullptr, node.location, ": the key '",
                        printable(node.text), "' is written twice; the first is at ",
                        first_location(parent.node, node.text));
      parent.key = {std::move(node.text), std::move(node.location)};
      parent.has_key = true;
    } else {
      parent.node.keys.push_back(std::move(parent.key));
      parent.node.items.push_back(std::move(node));
      parent.has_key = false;
    }
  }

  [[nodiscard]] static std::string first_location(config_node const& map, std::string_view name) {
    for (config_key const& key : map.keys)
      if (key.name == name) return key.location;
    return {};
  }

  std::string source_;
  config_limits limits_;
  config_node root_;
  std::vector<frame> stack_;
  std::map<YAML::anchor_t, config_node> anchors_;
  config_size size_;
};

void check_depth(config_node const& node, std::size_t remaining) {
  parallel::require(remaining > 0 || node.items.empty(), node.location, ": nested too deeply");
  for (config_node const& item : node.items) check_depth(item, remaining - 1);
}

/// The offset of the first byte that is not UTF-8 text (NUL is not text), or npos.
[[nodiscard]] std::size_t first_non_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    auto const bytes = text[i] == '\0' ? 0 : parallel::utf8_bytes(text.substr(i));
    if (bytes == 0) return i;
    i += bytes;
  }
  return std::string_view::npos;
}

}  // namespace

config_node parse_yaml(std::string_view text, std::string const& source,
                       config_limits const& limits) {
  parallel::require(text.size() <= limits.bytes, source, ": ", text.size(),
                    " bytes; a configuration has at most ", limits.bytes);
  auto const non_text_offset = first_non_text(text);
  parallel::require(non_text_offset == std::string_view::npos, source, ": byte ", non_text_offset,
                    " is not UTF-8 text; save the file as UTF-8");
  tree_builder builder(source, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      config_node empty;
      empty.location = source;
      return empty;
    }
    tree_builder second(source, limits);
    parallel::require(!parser.HandleNextDocument(second), source,
                      ": more than one YAML document; expected one");
  } catch (YAML::Exception const& problem) {
    auto const location =
        problem.mark.is_null() || source == "command line"
            ? source
            : parallel::concat(source, ":", problem.mark.line + 1, ":", problem.mark.column + 1);
    parallel::fail(location, ": not YAML: ", problem.msg,
                   "; look at indentation, brackets and quotes there");
  }
  config_node root = builder.take();
  check_depth(root, limits.depth);
  return root;
}

}  // namespace mpt
