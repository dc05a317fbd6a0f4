// Tests of the typed reader: conversions, messages, and that no key goes unseen.
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/yaml/document.hpp>
#include <mpt/yaml/reader.hpp>
#include <parallel/support/files.hpp>

namespace reader_test {

using use = std::function<void(mpt::config_reader&)>;

inline std::string problem(std::string const& text, use const& read) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  mpt::config_report report;
  return test::message_of([&] {
    mpt::config_reader reader(root, "top", report);
    read(reader);
  });
}

TEST_CASE("config_reader: values have the requested type, absent or blank ones the default") {
  auto const root =
      mpt::parse_yaml("i: 12\nd: 6.0e-4\nb: true\ns: 12\nt: 2e9tok\nblank:\nm: {x: 1}\n", "f.yaml");
  mpt::config_report report;
  mpt::config_reader reader(root, "", report);
  CHECK(reader.required<std::int64_t>("i") == 12);
  CHECK(reader.required<double>("d") == 6.0e-4);
  CHECK(reader.get("b", false));
  CHECK(reader.get<std::string>("s", "") == "12");
  CHECK(reader.required<mpt::time_value>("t") == mpt::time_value{2e9, mpt::time_unit::token});
  CHECK(reader.get<std::int64_t>("blank", 5) == 5);
  CHECK(!reader.optional<double>("absent"));
  auto section = reader.section("m");
  CHECK(section.get<std::int64_t>("x", 0) == 1);
  section.finish();
  reader.finish();
  CHECK(report.known.size() == 9);
  CHECK(report.known.back().name == "m.x");
}

TEST_CASE(
    "config_reader: each mistake gives one message with location, name, expected and found value") {
  std::vector<std::tuple<std::string, use, std::string>> const cases{
      {"a: x", [](auto& r) { static_cast<void>(r.template get<std::int64_t>("a", 0)); },
       "f.yaml:1:4: top.a: expected an integer, found 'x'"},
      {"a: '1'", [](auto& r) { static_cast<void>(r.template get<std::int64_t>("a", 0)); },
       "f.yaml:1:4: top.a: expected an integer, found the string '1'"},
      {"a: 1.5", [](auto& r) { static_cast<void>(r.template get<std::int64_t>("a", 0)); },
       "f.yaml:1:4: top.a: expected an integer, found '1.5'"},
      {"a: .inf", [](auto& r) { static_cast<void>(r.template get<double>("a", 0)); },
       "f.yaml:1:4: top.a: expected a finite number, found '.inf'"},
      {"a: 1", [](auto& r) { static_cast<void>(r.template get<bool>("a", false)); },
       "f.yaml:1:4: top.a: expected true or false, found '1'"},
      {"a: [1]", [](auto& r) { static_cast<void>(r.template get<std::string>("a", "")); },
       "f.yaml:1:4: top.a: expected text, found a list of 1"},
      {"b: 1", [](auto& r) { static_cast<void>(r.template required<bool>("a")); },
       "f.yaml:1:1: top.a: missing; it is required"},
      {"a: 1", [](auto& r) { static_cast<void>(r.section("a")); },
       "f.yaml:1:4: top.a: expected a mapping, found '1'"},
      {"a: q",
       [](auto& r) {
         static_cast<void>(r.one_of("a", "x", {"x", "y", "z"}));
       },
       "f.yaml:1:4: top.a: expected 'x', 'y' or 'z', found 'q'"},
      {"known: 1\nknwon: 2",
       [](auto& r) {
         static_cast<void>(r.template get<std::int64_t>("known", 0));
         r.finish();
       },
       "f.yaml:2:1: top.knwon: unknown key; did you mean 'top.known'?"},
      {"something: 2", [](auto& r) { r.finish(); }, "f.yaml:1:1: top.something: unknown key"},
      {"load_in_4bit: true",
       [](auto& r) {
         r.refuse_unsupported("load_in_8bit", "use false", {"false"});
         r.finish();
       },
       "f.yaml:1:1: top.load_in_4bit: unknown key"},
      {"inner: {deep: {alibi: 1}}\nalibi: 2",
       [](auto& r) {
         auto inner = r.section("inner");
         auto deep = inner.section("deep");
         static_cast<void>(deep.template get<std::int64_t>("alibi", 0));
         r.finish();
       },
       "f.yaml:2:1: top.alibi: unknown key; did you mean 'top.inner.deep.alibi'?"},
      {"something: 2",
       [](auto& r) {
         static_cast<void>(r.is_named("monitor"));
         r.accept_without_effect("plain_one", "always on");
         r.refuse_named("refused", "it is not there");
         r.finish(true);
       },
       "f.yaml:1:1: top.something: unknown key; there are monitor, plain_one"},
      {"a: nccl", [](auto& r) { r.refuse_unsupported("a", "use mpi", {"mpi"}); },
       "f.yaml:1:4: top.a: 'nccl' is not yet supported; use mpi"},
      {"a: {x: 1}", [](auto& r) { r.refuse_unsupported("a", "leave it blank"); },
       "f.yaml:1:4: top.a: not yet supported; leave it blank"}};
  for (auto const& [text, read, message] : cases) CHECK(problem(text, read) == message);
}

TEST_CASE("config_reader: an unsupported key may be blank, empty, or the default in any spelling") {
  for (std::string const text : {"a: false", "a: False", "a: no", "a:", "a: {}", "a: []", "b: 1"})
    CHECK(problem(text, [](auto& r) { r.refuse_unsupported("a", "use false", {"false"}); }) == "");
  CHECK(problem("a: 1", [](auto& r) { r.refuse_unsupported("a", "use 1.0", {"1.0"}); }) == "");
}

TEST_CASE("config_reader: a key without effect is always known and reported when written") {
  auto const root = mpt::parse_yaml("num_workers: 8\n", "f.yaml");
  mpt::config_report report;
  mpt::config_reader reader(root, "train_loader", report);
  reader.accept_without_effect("num_workers", "no workers");
  reader.accept_without_effect("pin_memory", "no workers");
  reader.finish();
  REQUIRE(report.ignored.size() == 1);
  CHECK(report.ignored[0].name == "train_loader.num_workers");
  CHECK(report.known.size() == 2);
}

TEST_CASE("config_reader: a known key says what it takes, its default and why it has no effect") {
  auto const root = mpt::parse_yaml("lr: 0.5\nname: b\n", "f.yaml");
  mpt::config_report report;
  mpt::config_reader reader(root, "", report);
  static_cast<void>(reader.get("lr", 0.001));
  static_cast<void>(reader.get("interval", mpt::time_value{10, mpt::time_unit::batch}));
  static_cast<void>(reader.raw("steps"));
  static_cast<void>(reader.get<std::int64_t>("steps", 7));
  static_cast<void>(reader.one_of("name", "a", {"a", "b"}));
  reader.section("inner").accept_without_effect("lr", "there is one rate");
  reader.refuse_unsupported("compile", "leave it out");
  using mpt::key_role;
  std::vector<mpt::known_key> const expected{
      {"lr", key_role::effective, "a finite number", "0.001", ""},
      {"interval", key_role::effective, "a time such as 100ba", "10ba", ""},
      {"steps", key_role::effective, "an integer", "7", ""},
      {"name", key_role::effective, "'a' or 'b'", "a", ""},
      {"inner", key_role::effective, "a mapping", "", ""},
      {"inner.lr", key_role::without_effect, "", "", "there is one rate"},
      {"compile", key_role::restricted, "", "", "leave it out"}};
  CHECK(report.known == expected);
}

}  // namespace reader_test
