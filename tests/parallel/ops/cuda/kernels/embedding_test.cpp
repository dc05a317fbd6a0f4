// The bodies of the embedding kernels on the host, against the reference loops, bit for bit.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/embedding.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_embedding_test {

using namespace parallel;
using ops_support::random;
using ops_support::same_bits;
using parallel::index;
using testing::guarded;

template <class T>
void expect(std::vector<T> const& initial, std::vector<T> const& expected, auto const& make) {
  testing::run_on_copies(initial, 2, 64, 0, make,
                         [&](auto const& y) { CHECK(same_bits(y, expected)); });
}

TEST_CASE_TEMPLATE(
    "embedding kernel: rows are those of the ids, and zeros for rows of other slices", T, float,
    bf16, double, std::uint64_t) {
  constexpr index rows = 10;
  for (index const tokens : {0, 1, 9, 40})
    for (index const columns : {0, 1, 5, 8, 520})
      for (ops::table_slice const slice : {ops::table_slice{}, ops::table_slice{10, 30}}) {
        auto const ids = ops_support::random_ids(tokens, slice.vocabulary == 0 ? 10 : 30, 1);
        auto const table = random<T>(rows * columns, 2);
        auto const y = random<T>(tokens * columns, 3);
        auto expected = y;
        reference::stream ref_stream;
        ops::embedding(ref_stream, matrix_view<T>(expected.data(), {tokens, columns}),
                       ops_support::vector(ids),
                       matrix_view<T const>(table.data(), {rows, columns}), slice);
        for (std::size_t const offset : {0, 1}) {
          guarded<T> from(table, offset);
          expect(y, expected, [&, tokens = tokens, columns = columns, slice = slice](T* to) {
            return cuda::kernels::embedding<T>{to,      ids.data(), from.data(), tokens,
                                               columns, rows,       slice};
          });
        }
      }
}

TEST_CASE(
    "embedding kernel: ids outside of the vocabulary give NaN, all ones in integers, and read no "
    "memory") {
  constexpr auto lowest = std::numeric_limits<std::int32_t>::min();
  constexpr auto highest = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t> const ids{-1, 1, 4, lowest, highest};
  std::vector<float> const table(2 * 8, 7.0F);
  testing::run_on_copies(
      std::vector<float>(5 * 8), 1, 32, 0,
      [&](float* y) {
        return cuda::kernels::embedding<float>{y, ids.data(), table.data(), 5, 8, 2, {0, 4}};
      },
      [](auto const& y) {
        for (std::size_t i = 0; i < y.size(); ++i)
          CHECK((i / 8 == 1 ? y[i] == 7.0F : std::isnan(y[i])));
      });
  std::vector<std::uint64_t> const integers(2 * 8, 7);
  testing::run_on_copies(
      std::vector<std::uint64_t>(5 * 8), 1, 32, 0,
      [&](std::uint64_t* y) {
        return cuda::kernels::embedding<std::uint64_t>{y, ids.data(), integers.data(), 5, 8, 2, {}};
      },
      [](auto const& y) {
        for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == (i / 8 == 1 ? 7U : ~0ULL));
      });
}

TEST_CASE_TEMPLATE(
    "position kernels: positions are added, and gradients summed, as in the reference", T, float,
    bf16, double, std::uint64_t) {
  using A = accumulate_t<T>;
  constexpr index positions = 12, first = 2;
  for (index const batch : {0, 1, 3})
    for (index const sequence : {1, 7, 10})
      for (index const columns : {1, 6, 8, 264}) {
        index const rows = batch * sequence;
        auto const table = random<T>(positions * columns, 4);
        auto const y = random<T>(rows * columns, 5);
        auto const gradients = random<A>(positions * columns, 6);
        auto expected = y;
        auto expected_gradients = gradients;
        reference::stream ref_stream;
        ops::add_positions(ref_stream, matrix_view<T>(expected.data(), {rows, columns}),
                           matrix_view<T const>(table.data(), {positions, columns}), sequence,
                           {.first = first});
        ops::add_positions_backward(
            ref_stream, matrix_view<A>(expected_gradients.data(), {positions, columns}),
            matrix_view<T const>(y.data(), {rows, columns}), sequence, {.first = first});
        guarded<T> from(table, 0), dy(y, 0);
        expect(y, expected, [&](T* to) {
          return cuda::kernels::add_positions<T>{to, from.data() + first * columns, rows, columns,
                                                 sequence};
        });
        expect(gradients, expected_gradients, [&](A* to) {
          return cuda::kernels::add_positions_backward<T>{to + first * columns, dy.data(), rows,
                                                          columns, sequence};
        });
      }
}

}  // namespace cuda_embedding_test
