#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/tiling.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace slice_test {
namespace pc = parallel::checkpoint;

pc::slice_set set_of(std::vector<std::pair<parallel::index, parallel::index>> const& ranges) {
  pc::slice_set set;
  set.files["f"] = 1000;
  auto& tensor = set.tensors["w"];
  tensor = {pc::element_type::f32, {2, 5}, {}};
  for (auto const& [begin, end] : ranges)
    tensor.slices.push_back({begin, end, "f", 0, static_cast<std::uint64_t>(end - begin) * 4, 7});
  return set;
}

std::string problem(pc::slice_set set) {
  return test::message_of([&] { pc::check_tiling(set, "m"); });
}

TEST_CASE(
    "slice: slices that tile a tensor in any order are accepted, and holes and overlaps are "
    "named") {
  CHECK(problem(set_of({{0, 10}})).empty());
  CHECK(problem(set_of({{7, 10}, {0, 3}, {3, 7}})).empty());
  CHECK(problem(set_of({{0, 3}, {3, 3}, {3, 10}})).empty());
  CHECK(test::contains(problem(set_of({})), "\"w\": elements 0 to 10 are in no slice"));
  CHECK(test::contains(problem(set_of({{0, 3}, {4, 10}})), "elements 3 to 4 are in no slice"));
  CHECK(test::contains(problem(set_of({{0, 9}})), "elements 9 to 10 are in no slice"));
  CHECK(test::contains(problem(set_of({{1, 10}})), "elements 0 to 1 are in no slice"));
  CHECK(test::contains(problem(set_of({{0, 5}, {4, 10}})), "elements 4 to 5 are in two slices"));
  CHECK(test::contains(problem(set_of({{0, 10}, {0, 10}})), "are in two slices"));
  CHECK(test::contains(problem(set_of({{0, 11}})), "[0, 11) does not lie within its 10 elements"));
}

TEST_CASE("slice: the bytes must fit the elements and the file") {
  auto set = set_of({{0, 10}});
  auto& slice = set.tensors["w"].slices[0];
  slice.bytes = 36;
  CHECK(test::contains(problem(set), "of F32 cannot have 36 bytes"));
  slice.bytes = 40;
  slice.offset = 961;
  CHECK(test::contains(problem(set), "lies beyond the 1000 bytes of f"));
  slice.offset = INT64_MAX;
  CHECK(test::contains(problem(set), "lies beyond"));
  slice.file = "g";
  CHECK(test::contains(problem(set), "in a file \"g\" that is not listed"));
}

TEST_CASE(
    "slice: records survive a round trip through JSON, and contradictions between ranks are "
    "found") {
  auto const set = set_of({{0, 4}, {4, 10}});
  auto const text = "{" + pc::format_slices(set, "m") + "}";
  pc::slice_set read;
  pc::add_slices(read, pc::parse_json(text, "m"), "m");
  CHECK(read.files == set.files);
  CHECK(read.tensors.at("w").slices == set.tensors.at("w").slices);

  auto const add = [&](std::string const& json) {
    return test::message_of([&] {
      auto copy = read;
      pc::add_slices(copy, pc::parse_json(json, "m"), "m");
    });
  };
  CHECK(test::contains(add(text), "file f is named twice"));
  for (auto const& [records, message] :
       test::text_cases("parallel/checkpoint/format/refused.txt", "slices"))
    CHECK(add(records) == message);
}

}  // namespace slice_test
