// Slices of columns: every way to divide a matrix is accepted, and every hole and overlap is found.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace tiling_test {
namespace pc = parallel::checkpoint;
using parallel::index;

constexpr index rows = 5;
constexpr index width = 7;

/// A slice of `count` rows of `run` columns from element `begin` on; with run 0, of `count`
/// elements.
pc::slice_record slice(index begin, index count, index run = 0, index stride = width) {
  pc::slice_record out;
  out.begin = begin;
  out.end = run == 0 ? begin + count : begin + (count - 1) * stride + run;
  out.file = "f";
  out.run = run;
  out.stride = run == 0 ? 0 : stride;
  out.bytes = static_cast<std::uint64_t>(run == 0 ? count : count * run) * 4;
  return out;
}

std::string problem(std::vector<pc::slice_record> slices) {
  pc::slice_set set;
  set.files["f"] = 1000;
  set.tensors["w"] = {pc::element_type::f32, {rows, width}, std::move(slices)};
  return test::message_of([&] { pc::check_tiling(set, "m"); });
}

TEST_CASE("tiling: columns and flat ranges tile together, in any order") {
  CHECK(problem({slice(0, rows, 3), slice(3, rows, 4)}).empty());
  CHECK(problem({slice(3, rows, 4), slice(0, rows, 3)}).empty());
  CHECK(problem({slice(0, 2, 3), slice(3, 2, 4), slice(14, 21)}).empty());
  // Flat ranges begin and end within rows: element 10 is row 1, column 3.
  CHECK(problem({slice(0, 10), slice(10, 4), slice(14, 3, 6), slice(20, 3, 1)}).empty());
  CHECK(problem({slice(0, rows, width)}).empty());
}

TEST_CASE("tiling: holes and overlaps are found") {
  auto const expected = [](std::string const& found, char const* const words) {
    CHECK_MESSAGE(test::contains(found, words), found);
  };
  expected(problem({slice(0, rows, 3), slice(4, rows, 3)}), "5 elements are in no slice");
  expected(problem({slice(0, rows, 3), slice(3, rows - 1, 4)}), "4 elements are in no slice");
  expected(problem({slice(0, rows, 4), slice(3, rows, 4)}),
           "elements of row 0 from column 3 on are in two slices");
  expected(problem({slice(0, rows, 3), slice(3, rows, 4), slice(24, 2)}), "are in two slices");
  expected(problem({slice(0, rows, 3), slice(3, rows, 4), slice(2, 3)}), "are in two slices");
  expected(problem({slice(0, rows, 3), slice(0, rows, 3)}), "are in two slices");
}

TEST_CASE("tiling: a slice of columns must lie within the tensor's rows") {
  auto const expected = [](std::string const& found, char const* const words) {
    CHECK_MESSAGE(test::contains(found, words), found);
  };
  expected(problem({slice(0, 4, 3, 6)}), "its stride must be the 7 elements of a row");
  expected(problem({slice(5, 4, 3)}), "do not lie within rows of 7");
  expected(problem({slice(0, 6, 3)}), "does not lie within its 35 elements");
  auto cut = slice(0, rows, 3);
  cut.end -= 1;
  expected(problem({cut}), "does not end with one of its runs");
  cut = slice(0, rows, 3);
  cut.bytes += 4;
  expected(problem({cut}), "3 of every 7 in [0, 31) of F32 cannot have 64 bytes");
  cut = slice(0, rows, 3);
  cut.offset = 941;
  expected(problem({cut}), "lies beyond the 1000 bytes of f");
}

TEST_CASE("tiling: a manifest that claims enormous slices is refused quickly") {
  constexpr index huge = index{1} << 60;
  pc::slice_set set;
  set.files["f"] = static_cast<std::uint64_t>(huge);
  pc::slice_record odd;
  odd.run = 1;
  odd.stride = 2;
  odd.end = huge - 1;
  odd.file = "f";
  odd.bytes = static_cast<std::uint64_t>(huge) / 2;
  set.tensors["w"] = {pc::element_type::u8, {huge / 2, 2}, {odd}};
  CHECK(test::contains(test::message_of([&] { pc::check_tiling(set, "m"); }),
                       "elements are in no slice"));
}

TEST_CASE(
    "tiling: records of columns survive a round trip through JSON, and bad ones are refused") {
  pc::slice_set set;
  set.files["f"] = 1000;
  set.tensors["w"] = {pc::element_type::f32, {rows, width}, {slice(0, rows, 3), slice(3, rows, 4)}};
  pc::slice_set read;
  pc::add_slices(read, pc::parse_json("{" + pc::format_slices(set, "m") + "}", "m"), "m");
  CHECK(read.tensors.at("w").slices == set.tensors.at("w").slices);
  auto const refusal = [](std::string const& members) {
    return test::message_of([&] {
      pc::slice_set set_of_slices;
      pc::add_slices(set_of_slices,
                     pc::parse_json(R"({"files":[],"tensors":[{"name":"w","dtype":"F32","shape":)"
                                    R"([5,7],"slices":[{"begin":0,"end":3,"file":"f","offset":0,)"
                                    R"("bytes":12,"xxh3":"0000000000000000",)" +
                                        members + "}]}]}",
                                    "m"),
                     "m");
    });
  };
  CHECK(refusal(R"("run":3,"stride":7)").empty());
  for (auto const& [text, message] :
       test::text_cases("parallel/checkpoint/format/refused.txt", "slices of columns"))
    CHECK(refusal(text) == message);
}

TEST_CASE("tiling: columns that ranks wrote are read back as any range and any columns") {
  test::temporary_folder const folder;
  pc::save_target const target{folder.path(), {0, 1}, 0};
  pc::prepare_save(target);
  std::vector<float> matrix(rows * width);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  std::vector<index> const shape{rows, width};
  std::vector<std::string> records;
  index const cuts[] = {0, 2, 6, width};
  for (index rank = 0; rank < 3; ++rank) {
    pc::rank_writer writer(target, rank);
    index const first = cuts[rank];
    index const run = cuts[rank + 1] - first;
    std::vector<float> own_values;
    for (index row = 0; row < rows; ++row)
      for (index column = first; column < first + run; ++column)
        own_values.push_back(matrix[static_cast<std::size_t>(row * width + column)]);
    writer.add<float>("w", shape, first, own_values, run);
    CHECK(test::contains(
        test::message_of([&] { writer.add<float>("w", shape, first, own_values, run); }),
        "were added twice"));
    if (rank == 0)
      CHECK(test::contains(
          test::message_of([&] { writer.add<float>("v", shape, width - 1, own_values, 2); }),
          "2 of each row, do not lie within shape [5, 7]"));
    records.push_back(writer.finish());
  }
  pc::commit(target, records, "{}");
  pc::checkpoint_reader const reader(target.folder());
  reader.verify();
  CHECK(reader.at("w").slices.size() == 3);
  for (index begin = 0; begin <= rows * width; ++begin)
    for (index end = begin; end <= rows * width; ++end) {
      std::vector<float> values(static_cast<std::size_t>(end - begin), -1.0F);
      reader.read("w", begin, std::span(values));
      for (index i = begin; i < end; ++i)
        REQUIRE(values[static_cast<std::size_t>(i - begin)] == static_cast<float>(i));
    }
  for (index first = 0; first < width; ++first)
    for (index run = 1; first + run <= width; ++run) {
      std::vector<double> block(static_cast<std::size_t>(3 * run));
      reader.read_block("w", width + first, run, std::span(block));
      for (index i = 0; i < 3 * run; ++i)
        REQUIRE(block[static_cast<std::size_t>(i)] ==
                static_cast<double>((1 + i / run) * width + first + i % run));
    }
  // A flipped bit is found.
  auto const path = target.folder() / "rank-00001-F32-000.safetensors";
  auto content = test::read_all(path);
  content.back() ^= 1;
  test::write_all(path, content);
  CHECK(test::contains(test::message_of([&] { reader.verify(); }), "are damaged"));
}

}  // namespace tiling_test
