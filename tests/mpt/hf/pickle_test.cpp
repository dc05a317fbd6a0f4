// Pickles are read as descriptions: instructions that build values are obeyed, nothing is called,
// and names of dangerous functions are refused at once.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/pickle.hpp>
#include <parallel/support/files.hpp>
#include <support/torch_zip.hpp>

namespace pickle_test {

using mpt::hf::pickle;
using test::pickle_code;

std::string problem(std::string const& code) {
  return test::message_of([&] { pickle const parsed(code, "m.bin"); });
}

TEST_CASE("pickle: every instruction that builds values is read") {
  // {"a": [1, 255, 65535, -2, 2.5, None, True, b"xy"], "b": ("é", ()), "c": {}}, with protocol 4
  std::string const code = pickle_code("\x80\x04\x95\x7f")
                               .raw(std::string(7, '\0'))
                               .raw(
                                   "}\x94(\x8c\x01"
                                   "a\x94]\x94(K\x01K\xffM\xff\xffJ\xfe\xff\xff\xffG\x40\x04")
                               .raw(std::string(6, '\0'))
                               .raw(
                                   "N\x88"
                                   "C\x02xye\x8c\x01"
                                   "b\x8c\x02\xc3\xa9)\x86\x8c\x01"
                                   "c}u")
                               .stop();
  pickle const parsed(code, "m.bin");
  auto const a = *parsed.find(parsed.root(), "a");
  CHECK(parsed.value_of(a).type == pickle::kind::list);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < 4; ++i)
    numbers.push_back(parsed.value_of(parsed.value_of(a).parts[i]).integer);
  CHECK(numbers == std::vector<std::int64_t>{1, 255, 65535, -2});
  CHECK(parsed.value_of(parsed.value_of(a).parts[4]).real == 2.5);
  CHECK(parsed.value_of(parsed.value_of(a).parts[5]).type == pickle::kind::none);
  CHECK(parsed.value_of(parsed.value_of(a).parts[6]).integer == 1);
  CHECK(parsed.value_of(parsed.value_of(a).parts[7]).text == "xy");
  auto const b = *parsed.find(parsed.root(), "b");
  CHECK(parsed.value_of(b).type == pickle::kind::tuple);
  CHECK(parsed.value_of(parsed.value_of(b).parts[0]).text == "\u00e9");
  CHECK(parsed.value_of(*parsed.find(parsed.root(), "c")).type == pickle::kind::mapping);
  CHECK_FALSE(parsed.find(parsed.root(), "d").has_value());
  CHECK_FALSE(parsed.find(a, "d").has_value());
}

TEST_CASE(
    "pickle: long integers of any sign and length, memoized values and repeated keys are read") {
  auto const root = [](pickle_code code) {
    pickle const parsed(code.stop(), "m");
    return parsed.value_of(parsed.root());
  };
  CHECK(root(pickle_code().raw("\x8a\x01\xff")).integer == -1);
  CHECK(root(pickle_code().raw(std::string_view("\x8a\x00", 2))).integer == 0);
  CHECK(root(pickle_code().raw(std::string_view("\x8a\x02\xff\x00", 4))).integer == 255);
  CHECK(root(pickle_code().integer(-(std::int64_t{1} << 62))).integer == -(std::int64_t{1} << 62));
  CHECK(root(pickle_code().raw("\x8a\x09"
                               "123456789"))
            .type == pickle::kind::object);
  pickle const repeated_key(pickle_code().raw("}(").text("k").raw("q\x07K\x01h\x07K\x02u").stop(),
                            "m");
  CHECK(repeated_key.value_of(*repeated_key.find(repeated_key.root(), "k")).integer == 2);
}

TEST_CASE("pickle: a tensor is a storage with a layout, and an ordered dictionary is a mapping") {
  auto const code = pickle_code()
                        .global("collections", "OrderedDict")
                        .raw(")R(")
                        .text("w")
                        .tensor("BFloat16Storage", "3", 12, {2, 3}, 6)
                        .raw("u}")
                        .text("_metadata")
                        .raw("}sb")
                        .stop();
  pickle const parsed(code, "m");
  CHECK(parsed.value_of(parsed.root()).type == pickle::kind::mapping);
  auto const& tensor = parsed.value_of(*parsed.find(parsed.root(), "w"));
  CHECK(tensor.type == pickle::kind::tensor);
  CHECK(tensor.integer == 6);
  auto const& storage = parsed.value_of(tensor.parts[0]);
  CHECK(storage.text == "3");
  CHECK(storage.integer == 12);
  CHECK(parsed.value_of(storage.parts[0]).text == "torch.BFloat16Storage");
  CHECK(parsed.value_of(parsed.value_of(tensor.parts[2]).parts[0]).integer == 3);
}

TEST_CASE("pickle: values irrelevant for weights become objects without content") {
  auto const code = pickle_code()
                        .raw("}(")
                        .text("a")
                        .global("datetime", "timedelta")
                        .raw("K\x01K\x02K\x03\x87R")
                        .text("b")
                        .global("collections", "defaultdict")
                        .raw(")R(")
                        .text("k")
                        .raw("K\x01u")
                        .text("c")
                        .global("composer.core.time", "Time")
                        .raw(")\x81}b")
                        .raw("u")
                        .stop();
  pickle const parsed(code, "m");
  for (auto const* const key : {"a", "b", "c"})
    CHECK(parsed.value_of(*parsed.find(parsed.root(), key)).type == pickle::kind::object);
}

TEST_CASE(
    "pickle: names of functions that could run code are refused, whether they are given inline or "
    "on the stack") {
  auto const refusal = [](std::string_view name) {
    return "m.bin: its pickle names " + std::string(name) +
           ", which no file of weights needs and which could run anything; nothing of it was run";
  };
  for (auto const& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"os", "system"},
                                                        {"posix", "system"},
                                                        {"builtins", "eval"},
                                                        {"builtins", "getattr"},
                                                        {"torch", "load"},
                                                        {"torch.storage", "_load_from_bytes"},
                                                        {"torch", "EvilStorage"},
                                                        {"collections", "OrderedDict.__init__"}}) {
    auto const full_name = module + "." + name;
    CHECK(test::contains(
        problem(pickle_code().global(module, name).raw("(").text("x").raw("tR").stop()),
        refusal(full_name)));
    CHECK(test::contains(problem(pickle_code().text(module).text(name).raw("\x93)R").stop()),
                         refusal(full_name)));
  }
}

TEST_CASE("pickle: instructions that no file of weights needs are refused") {
  for (std::string const code :
       {"(ios\nsystem\n", "Pid\n", "\x82\x01", "I1\n", "S'x'\n", "(o", "V\n"})
    CHECK(test::contains(problem(pickle_code().raw(code).stop()),
                         "which is not among those that describe weights; nothing of it was run"));
}

TEST_CASE("pickle: a truncated or damaged pickle is refused at every length") {
  auto const complete = pickle_code()
                            .raw("}(")
                            .text("w")
                            .tensor("FloatStorage", "0", 4, {4})
                            .text("n")
                            .raw("G12345678")
                            .raw("u")
                            .stop();
  CHECK(problem(complete).empty());
  for (std::size_t length = 0; length < complete.size(); ++length)
    CHECK(test::contains(problem(complete.substr(0, length)),
                         "m.bin: its pickle is damaged at byte "));
  for (std::string const code :
       {"0", "(t0", "a", "s",
        "K\x01K\x02"
        "a",
        "}K\x01"
        "a",
        "](K\x01u", "}(K\x01u", "h\x05", "R", "K\x01)R", "NQ", "(K\x01", "K\x01K\x02", "N)\x81"})
    CHECK(
        test::contains(problem(pickle_code().raw(code).stop()), "its pickle is damaged at byte "));
  CHECK(test::contains(problem(pickle_code().text("storage").raw("\x85Q").stop()),
                       "in an unknown way"));
  CHECK(test::contains(
      problem(pickle_code().global("torch._utils", "_rebuild_tensor_v2").raw(")R").stop()),
      "a tensor is described in an unknown way"));
}

TEST_CASE("pickle: unbounded growth is refused, and a list that contains itself is not followed") {
  CHECK(test::contains(problem(pickle_code().raw(std::string((1 << 20) + 1, 'N')).stop()),
                       "describes more than 1048576 values"));
  CHECK(test::contains(problem(pickle_code().raw(std::string((1 << 20) + 1, '(')).stop()),
                       "nested too deeply"));
  std::string growing = "]q\x01(";
  for (int i = 0; i < 1 << 16; ++i) growing += "h\x01";
  growing += "e";
  for (int i = 0; i < 80; ++i) growing += "(" + std::string(1 << 16, 'N') + "t";
  CHECK_FALSE(problem(pickle_code().raw(growing).stop()).empty());
  std::string recalled = "Nq\x01";
  for (int i = 0; i < (1 << 22) + 1; ++i) recalled += "h\x01";
  CHECK(test::contains(problem(pickle_code().raw(recalled).stop()), "its stack is too high"));
  pickle const self_containing(pickle_code()
                                   .raw("]q\x01h\x01"
                                        "a")
                                   .stop(),
                               "m");
  CHECK(self_containing.value_of(self_containing.root()).parts ==
        std::vector<pickle::id>{self_containing.root()});
}

}  // namespace pickle_test
