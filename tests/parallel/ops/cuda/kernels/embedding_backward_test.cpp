// The bodies of the kernels of an embedding's gradient on the host, with a stable sort of the
// standard library between them, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <parallel/ops/cuda/kernels/embedding_backward.hpp>
#include <parallel/ops/embedding.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_embedding_backward_test {

using namespace parallel;
using ops_support::random;
using ops_support::same_bits;
using parallel::index;
using testing::guarded;
namespace kernels = cuda::kernels;

/// dtable after the steps of the launcher, with all kernels in one order of threads.
template <class T>
std::vector<accumulate_t<T>> gradient(std::vector<accumulate_t<T>> const& dtable,
                                      std::vector<T> const& dy,
                                      std::vector<std::int32_t> const& ids, index columns,
                                      ops::table_slice slice, testing::thread_order order,
                                      std::size_t offset = 0) {
  using A = accumulate_t<T>;
  auto const size = ids.size();
  auto const count = static_cast<index>(size);
  index const table_rows = std::ssize(dtable) / columns;
  auto const run = [&](auto const& body) { testing::host_block::run_grid(3, 64, 0, order, body); };
  guarded<std::uint32_t> rows(size, 0), tokens(size, 0);
  run(kernels::list_rows{rows.data(), tokens.data(), ids.data(), count, table_rows, slice});
  CHECK((rows.intact() && tokens.intact()));

  std::vector<std::uint32_t> by_row(size), sorted_rows, sorted_tokens;
  std::iota(by_row.begin(), by_row.end(), 0U);
  std::ranges::stable_sort(by_row, {}, [&](std::uint32_t m) { return rows.data()[m]; });
  for (auto const m : by_row) {
    sorted_rows.push_back(rows.data()[m]);
    sorted_tokens.push_back(tokens.data()[m]);
  }

  index const pieces = kernels::sorted_tokens<T>::pieces(count);
  guarded<A> to(dtable, offset), open(static_cast<std::size_t>(2 * pieces * columns), 0);
  guarded<T> from(dy, 0);
  kernels::sorted_tokens<T> const sorted{
      to.data(), from.data(), sorted_rows.data(), sorted_tokens.data(), open.data(),
      count,     columns,     table_rows};
  run(kernels::sum_pieces<T>{sorted});
  run(kernels::join_pieces<T>{sorted});
  CHECK((to.intact() && open.intact()));
  return to.values();
}

template <class T>
std::vector<accumulate_t<T>> reference_gradient(std::vector<accumulate_t<T>> dtable,
                                                std::vector<T> const& dy,
                                                std::vector<std::int32_t> const& ids, index columns,
                                                ops::table_slice slice) {
  reference::stream ref_stream;
  ops::embedding_backward(
      ref_stream,
      matrix_view<accumulate_t<T>>(dtable.data(), {std::ssize(dtable) / columns, columns}),
      matrix_view<T const>(dy.data(), {std::ssize(ids), columns}), ops_support::vector(ids), slice);
  return dtable;
}

constexpr testing::thread_order orders[] = {testing::thread_order::ascending,
                                            testing::thread_order::descending,
                                            testing::thread_order::shuffled};

/// `size` ids whose runs begin, end and continue at every position of a piece of 32: all are `row`
/// except every `period`-th.
std::vector<std::int32_t> frequent(index size, std::int32_t row, index period,
                                   std::int32_t vocabulary) {
  auto ids = ops_support::random_ids(size, vocabulary, 7);
  for (index i = 0; i < size; ++i)
    if (i % period != 0) ids[static_cast<std::size_t>(i)] = row;
  return ids;
}

// integers show every element that is left out, doubled, or added to the wrong row
TEST_CASE(
    "embedding_backward kernels: in integers the gradient is exact for any token counts and "
    "slice") {
  using T = std::uint64_t;
  constexpr std::int32_t vocabulary = 12;
  for (index const size : {0, 1, 2, 31, 32, 33, 64, 65, 200})
    for (index const columns : {1, 2, 6, 70})
      for (ops::table_slice const slice : {ops::table_slice{}, ops::table_slice{0, 12},
                                           ops::table_slice{5, 12}, ops::table_slice{8, 12}}) {
        index const rows = slice.vocabulary == 0 ? 12 : 4;
        for (std::int32_t const row : {0, 6, 11})
          for (index const period : {1, 2, 7, 1000}) {
            auto const ids = frequent(size, row, period, vocabulary);
            auto const dtable = random<T>(rows * columns, 1);
            auto const dy = random<T>(size * columns, 2);
            auto const expected = reference_gradient(dtable, dy, ids, columns, slice);
            for (auto const order : orders)
              CHECK(same_bits(gradient(dtable, dy, ids, columns, slice, order), expected));
          }
      }
}

TEST_CASE_TEMPLATE(
    "embedding_backward kernels: sums are within rounding, with the same bits in any thread order",
    T, float, bf16, double) {
  using A = accumulate_t<T>;
  constexpr index size = 500, columns = 36;
  auto const ids = frequent(size, 3, 2, 9);
  auto const dtable = random<A>(9 * columns, 3);
  auto const dy = random<T>(size * columns, 4);
  auto const expected = reference_gradient(dtable, dy, ids, columns, {});
  auto const first = gradient(dtable, dy, ids, columns, {}, orders[0]);
  // at most 251 addends of about 1, rounded at sums of about 20
  CHECK(ops_support::excess(first, expected, 0.0) <= 500 * 64 * ops_support::unit<A>);
  for (auto const order : orders)
    for (std::size_t const offset : {0, 1})
      CHECK(same_bits(gradient(dtable, dy, ids, columns, {}, order, offset), first));
}

TEST_CASE("embedding_backward kernels: gradients of ids outside of the vocabulary are dropped") {
  std::vector<std::int32_t> const ids{1, -1, 2, std::numeric_limits<std::int32_t>::max(), 1};
  std::vector<float> const dtable(2 * 4, 1.0F), dy(5 * 4, 1.0F);
  auto const out = gradient(dtable, dy, ids, 4, {}, orders[2]);
  CHECK(out == std::vector<float>{1, 1, 1, 1, 3, 3, 3, 3});
}

}  // namespace cuda_embedding_backward_test
