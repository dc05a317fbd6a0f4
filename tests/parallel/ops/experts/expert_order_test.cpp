// Places of rows by expert against a stable sort, with capacities and blocks, and counts of
// choices.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <parallel/ops/host/experts/routing.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/support/files.hpp>

#include "parallel/ops/support.hpp"

namespace expert_order_test {

using namespace ops_support;
namespace ops = parallel::ops;
using std::ptrdiff_t;
using numbers = std::vector<std::int32_t>;

struct order {
  numbers places, ends, lost;
  bool operator==(order const&) const = default;
};

order order_on(auto& s, numbers const& experts, ptrdiff_t top_k, ptrdiff_t count, ptrdiff_t blocks,
               ops::expert_order_options const& options) {
  order got{numbers(experts.size(), 99), numbers(static_cast<std::size_t>(count), 99),
            numbers(2, 99)};
  ptrdiff_t const rows = std::ssize(experts) / top_k;
  ops::expert_order(s, matrix(got.places, rows), matrix(got.ends, blocks), vector(got.lost),
                    matrix(experts, rows), options);
  s.synchronize();
  return got;
}

/// The order by a stable sort of the choices that the capacity leaves.
order sorted(numbers const& experts, ptrdiff_t top_k, ptrdiff_t count, ptrdiff_t blocks,
             ops::expert_order_options const& options) {
  order out{numbers(experts.size(), -1), {}, numbers(2)};
  ptrdiff_t const share = count / blocks;
  numbers left;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    auto const row = static_cast<ptrdiff_t>(i) / top_k;
    auto const begin = experts.begin() + row / options.sequence * options.sequence * top_k;
    auto const earlier = std::count(begin, experts.begin() + static_cast<ptrdiff_t>(i), experts[i]);
    if (options.capacity > 0 && earlier >= options.capacity)
      ++out.lost[0];
    else
      left.push_back(static_cast<std::int32_t>(i));
  }
  std::ranges::stable_sort(left, {}, [&](auto i) { return experts[static_cast<std::size_t>(i)]; });
  numbers next(static_cast<std::size_t>(blocks));
  out.ends.resize(static_cast<std::size_t>(count));
  for (ptrdiff_t e = 0; e < count; ++e) {
    auto& place = next[static_cast<std::size_t>(e / share)];
    for (auto const i : left) {
      if (experts[static_cast<std::size_t>(i)] != e) continue;
      if (place == options.block_rows)
        ++out.lost[1];
      else
        out.places[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>(e / share * options.block_rows) + place++;
    }
    out.ends[static_cast<std::size_t>(e)] = place;
  }
  return out;
}

/// Random distinct experts of each row, in ascending order; the last `unused` are never chosen.
numbers choices(ptrdiff_t rows, ptrdiff_t top_k, ptrdiff_t experts, ptrdiff_t unused,
                std::uint64_t seed) {
  auto const shifts = random_ids(rows * experts, 1 << 20, seed);
  numbers out;
  for (ptrdiff_t m = 0; m < rows; ++m) {
    numbers row(static_cast<std::size_t>(experts - unused));
    std::iota(row.begin(), row.end(), 0);
    std::ranges::sort(row, {},
                      [&](auto e) { return shifts[static_cast<std::size_t>(m * experts + e)]; });
    row.resize(static_cast<std::size_t>(top_k));
    std::ranges::sort(row);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

TEST_CASE("expert_order: rows are in the order of their experts, those of one expert as before") {
  parallel::reference::stream s;
  auto const got = order_on(s, {2, 0, 2, 0, 3, 2}, 1, 4, 1, {.block_rows = 6});
  CHECK(got.places == numbers{2, 0, 3, 1, 5, 4});
  CHECK(got.ends == numbers{2, 2, 5, 6});
  CHECK(got.lost == numbers{0, 0});
}

TEST_CASE("expert_order: reference and host equal a stable sort, for capacities and full blocks") {
  struct problem {
    ptrdiff_t rows, top_k, experts;
  };
  for (problem const p : {problem{1, 1, 4}, {12, 2, 8}, {150, 3, 12}, {90, 8, 64}})
    for (ptrdiff_t const unused : {0, 1})
      for (ptrdiff_t const blocks : {1, 2, 4})
        for (ptrdiff_t const capacity : {0, 1, 3})
          for (ptrdiff_t const block_rows :
               {p.rows * p.top_k, p.rows * p.top_k / blocks + 1, ptrdiff_t{2}}) {
            CAPTURE(p.rows);
            CAPTURE(blocks);
            CAPTURE(capacity);
            CAPTURE(block_rows);
            ops::expert_order_options const options{
                .block_rows = block_rows, .sequence = 10, .capacity = capacity};
            auto const chosen = choices(p.rows, p.top_k, p.experts, unused, 7);
            auto const expected = sorted(chosen, p.top_k, p.experts, blocks, options);
            parallel::reference::stream plain;
            CHECK(order_on(plain, chosen, p.top_k, p.experts, blocks, options) == expected);
            parallel::host::stream host({.threads = 2});
            CHECK(order_on(host, chosen, p.top_k, p.experts, blocks, options) == expected);
          }
}

TEST_CASE("expert_order: a capacity drops the later rows of each sequence, not of the batch") {
  parallel::reference::stream s;
  auto const got = order_on(s, {0, 0, 1, 0, 0, 1, 0, 0}, 1, 2, 1,
                            {.block_rows = 8, .sequence = 4, .capacity = 1});
  CHECK(got.places == numbers{0, -1, 2, -1, 1, 3, -1, -1});
  CHECK(got.ends == numbers{2, 4});
  CHECK(got.lost == numbers{4, 0});
}

TEST_CASE("expert_order: rows beyond a full block are counted, and their experts end at its end") {
  parallel::reference::stream s;
  auto const got = order_on(s, {0, 0, 0, 1, 2, 3, 3}, 1, 4, 2, {.block_rows = 2});
  CHECK(got.places == numbers{0, 1, -1, -1, 2, 3, -1});
  CHECK(got.ends == numbers{2, 2, 1, 2});
  CHECK(got.lost == numbers{0, 3});
}

TEST_CASE("expert_order: shapes and options that do not belong together are refused") {
  auto const message_of = [](ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t lost, ptrdiff_t count,
                             ops::expert_order_options options) {
    numbers places(6), ends(2000), reasons(3), experts(6);
    return test::message_of([&] {
      parallel::reference::stream s;
      ops::expert_order(s, {places.data(), {rows, columns}}, {ends.data(), {1, count}},
                        {reasons.data(), {lost}}, {experts.data(), {3, 2}}, options);
    });
  };
  CHECK(message_of(3, 2, 2, 4, {.block_rows = 6}) == "");
  CHECK(message_of(2, 2, 2, 4, {.block_rows = 6}) ==
        "ops::expert_order: the number of rows of places is 2, but that of experts is 3; the two "
        "must be the same");
  CHECK(message_of(3, 1, 2, 4, {.block_rows = 6}) ==
        "ops::expert_order: the number of columns of places is 1, but that of experts is 2; the "
        "two must be the same");
  CHECK(message_of(3, 2, 3, 4, {.block_rows = 6}) ==
        "ops::expert_order: the size of lost is 3, but the number of reasons is 2; the two must be "
        "the same");
  CHECK(message_of(3, 2, 2, 1025, {.block_rows = 6}) ==
        "ops::expert_order: 1025 experts; at most 1024 are possible");
  CHECK(message_of(3, 2, 2, 4, {.block_rows = 6, .sequence = 0}) ==
        "ops::expert_order: sequences of 0 rows; a sequence has at least one");
  CHECK(message_of(3, 2, 2, 4, {.block_rows = 3'000'000'000}) ==
        "ops::expert_order: 1 blocks of 3000000000 places; places are numbers up to 2147483647");
}

TEST_CASE_TEMPLATE("choice_counts: each set counts the choices of its own rows", A, float, double,
                   std::uint64_t) {
  numbers const experts{0, 1, 0, 2, 1, 2, 1, 2};  // four rows of two choices
  auto const check = [&](auto& s) {
    std::vector<A> counts(8, A(9)), whole(4, A(9));
    ops::choice_counts(s, matrix(counts, 2), matrix(experts, 4));
    ops::choice_counts(s, matrix(whole, 1), matrix(experts, 4));
    s.synchronize();
    CHECK(counts == std::vector<A>{2, 1, 1, 0, 0, 2, 2, 0});
    CHECK(whole == std::vector<A>{2, 3, 3, 0});
  };
  parallel::reference::stream plain;
  check(plain);
  parallel::host::stream host({.threads = 2});
  check(host);
}

TEST_CASE("choice_counts: sets that do not divide the rows are refused") {
  numbers const experts(8);
  std::vector<float> counts(12);
  std::string message;
  try {
    parallel::reference::stream s;
    ops::choice_counts(s, matrix(counts, 3), matrix(experts, 4));
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::choice_counts: 4 rows are not divided equally by 3 sets");
}

}  // namespace expert_order_test
