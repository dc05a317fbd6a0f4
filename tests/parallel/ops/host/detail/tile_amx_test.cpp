// Products of small matrices of bf16 pairs, by the matrix unit and by SIMD registers: exact on
// integers, for any size, strides and bounds.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/host/detail/tile_amx.hpp>

namespace tile_amx_test {

namespace detail = parallel::host::detail;
using detail::bf16_pair;
using detail::bounds;
using detail::multiplier;
using detail::tile_store;
using parallel::bf16;
using parallel::index;

std::vector<multiplier> multipliers() {
  std::vector<multiplier> available;
  if (detail::multiplies_pairs()) available.push_back(multiplier::lanes);
  if (parallel::host::has_matrix_unit()) available.push_back(multiplier::matrix_unit);
  return available;
}

std::size_t as_size(index i) { return static_cast<std::size_t>(i); }

/// A [rows, depth] and B [depth, columns] of integers as pairs, with zeros up to a full depth of a
/// tile; rows of A, B and C have `gap` elements between them. `shift` is the offset from an aligned
/// address.
struct factors {
  index rows, columns, depth;  // depth in numbers, not pairs
  index gap = 0, shift = 0;
  index a_row = (depth + 31) / 32 * 16 + gap;
  index b_row = columns + gap;
  index c_row = columns + gap;
  std::vector<bf16> a = std::vector<bf16>(as_size(2 * (rows * a_row + shift)), bf16(0.0F));
  std::vector<bf16> b =
      std::vector<bf16>(as_size(2 * ((depth + 31) / 32 * 16 * b_row + shift)), bf16(0.0F));

  bf16& left(index i, index k) { return a[as_size(2 * (i * a_row + shift) + k)]; }
  bf16& right(index k, index j) { return b[as_size(2 * (k / 2 * b_row + j + shift) + k % 2)]; }

  void fill() {
    parallel::philox const random(5, 6);
    std::uint64_t drawn = 0;
    auto const small = [&] { return bf16(static_cast<float>(random.bits(drawn++) % 17) - 8.0F); };
    for (index i = 0; i < rows; ++i)
      for (index k = 0; k < depth; ++k) left(i, k) = small();
    for (index k = 0; k < depth; ++k)
      for (index j = 0; j < columns; ++j) right(k, j) = small();
  }

  /// The initial contents of C: different numbers, also in the gaps.
  [[nodiscard]] std::vector<float> sums() const {
    std::vector<float> c(as_size(rows * c_row + shift));
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 23) - 11.0F;
    return c;
  }

  [[nodiscard]] detail::tile_of<bf16_pair> tile(std::vector<float>& c) const {
    return {.rows = rows,
            .columns = columns,
            .depth = (depth + 1) / 2,
            .a = reinterpret_cast<bf16_pair const*>(a.data()) + shift,
            .a_row = a_row,
            .a_depth = 1,
            .b = reinterpret_cast<bf16_pair const*>(b.data()) + shift,
            .b_depth = b_row,
            .c = c.data() + shift,
            .c_row = c_row};
  }

  /// The product over the depths [begin(i, j), end(i, j)).
  template <class Begin, class End>
  std::vector<float> product(bool add, Begin begin, End end) {
    auto c = sums();
    for (index i = 0; i < rows; ++i)
      for (index j = 0; j < columns; ++j) {
        float& sum = c[as_size(i * c_row + j + shift)];
        if (!add) sum = 0.0F;
        for (index k = begin(i, j); k < end(i, j); ++k)
          sum += static_cast<float>(left(i, k)) * static_cast<float>(right(k, j));
      }
    return c;
  }
};

void multiply(multiplier method, tile_store store, detail::tile_of<bf16_pair> const& tile) {
  detail::tile_shapes const shapes(method);
  if (store == tile_store::add)
    detail::tile_product<16, tile_store::add>(method, tile);
  else
    detail::tile_product<16, tile_store::assign>(method, tile);
}

TEST_CASE("tile products: integers are exact for every size, depth, row stride and alignment") {
  for (auto const method : multipliers())
    for (index const rows : {16, 32, 48, 80})
      for (index const columns : {16, 32, 48, 80})
        for (index const depth : {0, 1, 2, 31, 32, 33, 64, 95})
          for (index const gap : {0, 3}) {
            CAPTURE(rows);
            CAPTURE(columns);
            CAPTURE(depth);
            factors f{.rows = rows, .columns = columns, .depth = depth, .gap = gap, .shift = gap};
            f.fill();
            for (auto const store : {tile_store::assign, tile_store::add}) {
              auto c = f.sums();
              multiply(method, store, f.tile(c));
              CHECK(c == f.product(
                             store == tile_store::add, [](index, index) { return 0; },
                             [&](index, index) { return depth; }));
            }
          }
}

TEST_CASE("tile products: the part that a causal mask leaves is exact") {
  for (auto const method : multipliers())
    for (index const rows : {32, 48, 64})
      for (index const offset : {-70, -33, -16, -1, 0, 1, 15, 40, 64, 200}) {
        CAPTURE(rows);
        CAPTURE(offset);
        // rows are keys, columns queries: only columns >= row - offset are needed
        factors f{.rows = rows, .columns = 64, .depth = 64};
        f.fill();
        auto const none = [](index, index) -> index { return 0; };
        auto const full_depth = [](index, index) -> index { return 64; };
        auto c = f.sums();
        auto tile = f.tile(c);
        tile.limit = bounds::columns_from_row;
        tile.offset = offset;
        multiply(method, tile_store::assign, tile);
        auto const whole = f.product(false, none, full_depth);
        bool equal = true;
        for (index i = 0; i < rows; ++i)
          for (index j = std::max<index>(0, i - offset); j < 64; ++j)
            equal = equal && c[as_size(i * 64 + j)] == whole[as_size(i * 64 + j)];
        CHECK(equal);
        // depth is keys: B is zero where a column does not see them
        auto masked = f;
        for (index k = 0; k < 64; ++k)
          for (index j = 0; j < 64; ++j)
            if (k > j + offset) masked.right(k, j) = bf16(0.0F);
        c = f.sums();
        tile = masked.tile(c);
        tile.limit = bounds::depth_until_column;
        tile.offset = offset;
        multiply(method, tile_store::add, tile);
        CHECK(c == masked.product(true, none, full_depth));
        // depth is queries, rows are keys: A is zero where a query does not see its row
        masked = f;
        for (index i = 0; i < rows; ++i)
          for (index k = 0; k < 64; ++k)
            if (k < i - offset) masked.left(i, k) = bf16(0.0F);
        c = f.sums();
        tile = masked.tile(c);
        tile.limit = bounds::depth_from_row;
        tile.offset = offset;
        multiply(method, tile_store::add, tile);
        CHECK(c == masked.product(true, none, full_depth));
      }
}

TEST_CASE("tile products: NaN and infinity reach the sums of their row and column, and no others") {
  float const infinity = std::numeric_limits<float>::infinity();
  for (auto const method : multipliers())
    for (float const bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      factors f{.rows = 48, .columns = 48, .depth = 40};
      f.fill();
      for (index k = 0; k < 40; ++k)
        for (index j = 0; j < 48; ++j) f.right(k, j) = bf16(1.0F);
      f.left(33, 39) = bf16(bad);
      auto c = f.sums();
      multiply(method, tile_store::assign, f.tile(c));
      for (index i = 0; i < 48; ++i)
        for (index j = 0; j < 48; ++j) {
          float const sum = c[as_size(i * 48 + j)];
          if (i != 33)
            CHECK(std::isfinite(sum));
          else if (std::isnan(bad))
            CHECK(std::isnan(sum));
          else
            CHECK(sum == bad);
        }
    }
}

TEST_CASE("tile_shapes: the destructor restores a thread's previous tile shapes") {
  if (!parallel::host::has_matrix_unit()) return;
  using shapes = std::array<unsigned char, 64>;
  auto const current = [] {
    shapes configuration{};
    asm volatile("sttilecfg %0" : "=m"(configuration));
    return configuration;
  };
  shapes library_shapes{1};  // the palette
  library_shapes[16] = 8;    // bytes of a row of tile 0
  library_shapes[48] = 3;    // its rows
  for (auto const& previous : {shapes{}, library_shapes}) {
    if (previous == library_shapes) asm volatile("ldtilecfg %0" : : "m"(library_shapes));
    {
      detail::tile_shapes const own_shapes(multiplier::matrix_unit);
      CHECK(current() != previous);
    }
    CHECK(current() == previous);
    {
      detail::tile_shapes const none(multiplier::lanes);
      CHECK(current() == previous);
    }
  }
  asm volatile("tilerelease");
}

TEST_CASE("tile products: several threads multiply at the same time") {
  if (!parallel::host::has_matrix_unit()) return;
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (index thread = 0; thread < 4; ++thread)
    threads.emplace_back([&wrong, thread] {
      factors f{.rows = 32, .columns = 16 + 16 * thread, .depth = 64};
      f.fill();
      auto const expected = f.product(
          false, [](index, index) { return 0; }, [](index, index) { return 64; });
      for (int round = 0; round < 100; ++round) {
        auto c = f.sums();
        multiply(multiplier::matrix_unit, tile_store::assign, f.tile(c));
        wrong[as_size(thread)] += c != expected;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("tile products: floats are multiplied by SIMD registers on every processor") {
  CHECK(detail::fastest_multiplier<float>() == multiplier::lanes);
  CHECK(detail::fastest_multiplier<bf16_pair>() ==
        (parallel::host::has_matrix_unit() ? multiplier::matrix_unit : multiplier::lanes));
}

}  // namespace tile_amx_test
