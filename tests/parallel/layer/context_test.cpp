#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/device/meta/device.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/mesh/layout.hpp>

namespace context_test {

using parallel::arena;
using parallel::context;
using parallel::index;
using parallel::pass;
using parallel::row_share;
namespace meta = parallel::meta;

struct visited_run {
  index row, count;
  std::uint64_t sequence;
  index position;
  bool operator==(visited_run const&) const = default;
};

std::vector<visited_run> runs_of(index sequence, row_share share, index rows) {
  meta::stream stream;
  arena memory;
  context<meta::stream> c{stream, memory, pass::training, {.first_sequence = 7}, sequence, share};
  std::vector<visited_run> out;
  c.for_each_run(rows, [&](index row, index count, std::uint64_t sequence_index, index position) {
    out.push_back({row, count, sequence_index, position});
  });
  return out;
}

TEST_CASE("context: without a division every sequence is one run") {
  CHECK(runs_of(5, {}, 10) == std::vector<visited_run>{{0, 5, 7, 0}, {5, 5, 8, 0}});
}

TEST_CASE("context: a share along the tensor axis begins and ends in the middle of sequences") {
  // rows 4 ... 8 of two sequences of 6
  CHECK(runs_of(6, {.first_row = 4}, 4) == std::vector<visited_run>{{0, 2, 7, 4}, {2, 2, 8, 0}});
}

TEST_CASE("context: runs of a start and an end of each sequence, and of a tensor share of those") {
  // 2 of 8 positions at the head, 2 at the tail: {0, 1, 6, 7}
  row_share share{.whole = 8, .starts = {0, 6}, .runs = 2};
  CHECK(runs_of(4, share, 8) ==
        std::vector<visited_run>{{0, 2, 7, 0}, {2, 2, 7, 6}, {4, 2, 8, 0}, {6, 2, 8, 6}});
  share.first_row = 3;
  CHECK(runs_of(4, share, 3) == std::vector<visited_run>{{0, 1, 7, 7}, {1, 2, 8, 0}});
}

TEST_CASE("context: rows that are contiguous in the global batch are one span") {
  meta::stream stream;
  arena memory;
  context<meta::stream> c{stream, memory,          pass::training, {.first_sequence = 7},
                          6,      {.first_row = 4}};
  std::vector<std::uint64_t> seen;
  c.for_each_span(4, [&](index row, index count, std::uint64_t global) {
    seen.insert(seen.end(),
                {static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(count), global});
  });
  CHECK(seen == std::vector<std::uint64_t>{0, 4, 46});
  c.share = {.whole = 12, .starts = {0, 9}, .runs = 2};
  seen.clear();
  c.for_each_span(6, [&](index row, index count, std::uint64_t global) {
    seen.insert(seen.end(),
                {static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(count), global});
  });
  CHECK(seen == std::vector<std::uint64_t>{0, 3, 84, 3, 3, 93});
}

TEST_CASE(
    "context: column slices have all rows of the context rank, other values those of the share") {
  meta::stream stream;
  arena memory;
  row_share const local_share{.whole = 12, .starts = {0, 9}, .runs = 2, .first_row = 4};
  context<meta::stream> const c{stream, memory, pass::training, {}, 6, local_share};
  parallel::matrix_view<float> const x;
  CHECK(c.for_rows_of(x).share == local_share);
  row_share all_rows = local_share;
  all_rows.first_row = 0;
  CHECK(c.for_rows_of(parallel::column_slice<parallel::axis::tensor, float>{x}).share == all_rows);
  CHECK(c.for_all_rows().share == all_rows);
  CHECK(c.share == local_share);
}

}  // namespace context_test
