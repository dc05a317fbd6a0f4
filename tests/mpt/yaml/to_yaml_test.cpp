#include <string>

#include <doctest/doctest.h>

#include <mpt/yaml/document.hpp>
#include <mpt/yaml/to_yaml.hpp>
#include <support/checkout.hpp>

namespace to_yaml_test {
namespace {

/// A tree without its locations.
std::string shape_of(mpt::config_node const& node) {
  std::string out = std::to_string(static_cast<int>(node.type));
  if (node.is_scalar()) out += (node.is_string ? "'" : "") + node.text;
  out += '(';
  for (std::size_t i = 0; i < node.items.size(); ++i)
    out += (node.is_map() ? node.keys[i].name + "=" : "") + shape_of(node.items[i]) + ";";
  return out + ')';
}

void check_is_read_again(std::string const& text) {
  auto const document = mpt::parse_yaml(text, "f.yaml");
  auto const written = mpt::to_yaml(document);
  CAPTURE(written);
  CHECK(shape_of(mpt::parse_yaml(written, "f.yaml")) == shape_of(document));
}

TEST_CASE("YAML text: scalars, lists and mappings are read again as they were") {
  check_is_read_again("a: 1\nb: {c: [x, 'y', -3, 1e5], d: {}, e: [], f: , g: ~}\n");
  check_is_read_again("a:\n- {b: 1, c: {d: [[1, 2], [3]]}}\n- x\n-\n- [1, 'null', null]\n");
  check_is_read_again("a: 'it''s \"so\"\\n'\nb: \"tab\\there: #1\"\nc: |\n  two\n  lines\n");
  check_is_read_again("a: '-'\nb: '- x'\nc: 'x: y'\nd: ''\ne: ' z '\nf: größe\n'k: 1': 2\n");
  check_is_read_again("a: x,y\nb: {c: 'a,b', d: 010, e: 1:30, f: 2ep, g: yes, h: '010'}\n");
  check_is_read_again("a:\n- x,y\n- '[z'\n- w\n");
}

TEST_CASE("YAML text: every file of this repository for a run is read again as it was") {
  for (auto const* const name : {"small.yaml", "finetune.yaml", "mpt/7b.yaml"}) {
    CAPTURE(name);
    auto const document = mpt::load_document(test::checkout() / "apps/configs" / name);
    CHECK(shape_of(mpt::parse_yaml(mpt::to_yaml(document), name)) == shape_of(document));
  }
}

}  // namespace
}  // namespace to_yaml_test
