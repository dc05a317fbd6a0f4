// Embeddings of tokens and positions, and their gradients.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <parallel/ops/embedding.hpp>
#include <parallel/ops/host/embedding.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "support.hpp"

namespace embedding_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;

TEST_CASE("embedding: rows are looked up, and gradients of one token are summed") {
  std::vector<double> const table{1, 2, 3, 4, 5, 6};  // 3 tokens of width 2
  std::vector<std::int32_t> const ids{2, 0, 2};
  std::vector<double> y(6), gradient(6, 1.0);
  on_reference([&](auto& s) {
    ops::embedding(s, matrix(y, 3), vector(ids), matrix(table, 3));
    ops::embedding_backward(s, matrix(gradient, 3), matrix(y, 3), vector(ids));
  });
  CHECK(y == std::vector<double>{5, 6, 1, 2, 5, 6});
  CHECK(gradient == std::vector<double>{2, 3, 1, 1, 11, 13});
}

TEST_CASE("add_positions: positions start again with every sequence, at any first position") {
  std::vector<double> const table{10, 20, 30, 40};
  std::vector<double> y{1, 2, 3, 4}, gradient(4);
  on_reference([&](auto& s) {
    ops::add_positions(s, matrix(y, 4), matrix(table, 4), 2, {.first = 1});
    ops::add_positions_backward(s, matrix(gradient, 4), matrix(y, 4), 2, {.first = 1});
  });
  CHECK(y == std::vector<double>{21, 32, 23, 34});
  CHECK(gradient == std::vector<double>{0, 44, 66, 0});
}

TEST_CASE_TEMPLATE("embedding: the host equals the reference bit for bit", T, float, bf16, double,
                   std::uint64_t) {
  using A = accumulate_t<T>;
  for (ptrdiff_t const tokens : {4, 12, 400})
    for (ptrdiff_t const width : {1, 3, 16, 17, 100})
      for (int const threads : {1, 2, 3}) {
        CAPTURE(tokens);
        CAPTURE(width);
        ptrdiff_t const rows = 11, sequence = tokens / 2;
        auto const ids = random_ids(tokens, 11, 1);
        auto const table = random<T>(rows * width, 2);
        auto const positions = random<T>((sequence + 3) * width, 3);
        auto const dy = random<T>(tokens * width, 4);
        auto const run = [&](auto& s, std::vector<T>& y, std::vector<A>& dtable,
                             std::vector<A>& dpositions) {
          ops::embedding(s, matrix(y, tokens), vector(ids), matrix(table, rows));
          ops::add_positions(s, matrix(y, tokens), matrix(positions, sequence + 3), sequence,
                             {.first = 3});
          ops::embedding_backward(s, matrix(dtable, rows), matrix(dy, tokens), vector(ids));
          ops::add_positions_backward(s, matrix(dpositions, sequence + 3), matrix(dy, tokens),
                                      sequence, {.first = 3});
        };
        std::vector<T> ya(dy.size()), yb(dy.size());
        auto ta = random<A>(rows * width, 5), pa = random<A>((sequence + 3) * width, 6);
        auto tb = ta, pb = pa;
        on_reference([&](auto& s) { run(s, ya, ta, pa); });
        on_host(threads, [&](auto& s) { run(s, yb, tb, pb); });
        CHECK(same_bits(ya, yb));
        CHECK(same_bits(ta, tb));
        CHECK(same_bits(pa, pb));
      }
}

TEST_CASE(
    "embedding: an id outside of the table is an error that names it, and nothing is written") {
  std::vector<float> const table(6, 1.0F);
  std::vector<float> y(4), dtable(6);
  for (std::int32_t const bad : {-1, 3}) {
    std::vector<std::int32_t> const ids{0, bad};
    std::string const expected = "ops::embedding: id " + std::to_string(bad) +
                                 " of token 1 is outside of the table of 3 rows";
    auto const message_of = [](auto const& work) -> std::string {
      try {
        on_host(1, work);
      } catch (parallel::error const& e) {
        return e.what();
      }
      return "no error";
    };
    CHECK(message_of([&](auto& s) {
            ops::embedding(s, matrix(y, 2), vector(ids), matrix(table, 3));
          }) == expected);
    CHECK(message_of([&](auto& s) {
            ops::embedding_backward(s, matrix(dtable, 3), matrix(y, 2), vector(ids));
          }) == expected);
  }
  CHECK(y == std::vector<float>(4));
  CHECK(dtable == std::vector<float>(6));
}

TEST_CASE("add_positions: positions beyond the table are refused at the call") {
  std::vector<float> const table(6);
  std::vector<float> y(8);
  std::string message;
  try {
    on_reference(
        [&](auto& s) { ops::add_positions(s, matrix(y, 4), matrix(table, 3), 2, {.first = 2}); });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::add_positions: positions 2 to 3 are needed, but the table ends at 2");
}

TEST_CASE("embedding: the meta device counts one operation for each element that is added") {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const y(nullptr, {4, 3}), table(nullptr, {9, 3});
  parallel::matrix_view<float> const dtable(nullptr, {9, 3});
  parallel::vector_view<std::int32_t> const ids(nullptr, {4});
  ops::embedding(s, y, ids, table);
  CHECK(s.operations() == 0);
  ops::embedding_backward(s, dtable, y, ids);
  ops::add_positions(s, y, table, 2);
  ops::add_positions_backward(s, dtable, y, 2);
  CHECK(s.operations() == 36);
}

TEST_CASE_TEMPLATE(
    "embedding: the results of a table's slices sum to the look-up, and each slice gets its "
    "gradients",
    T, float, bf16, double, std::uint64_t) {
  using A = parallel::accumulate_t<T>;
  constexpr std::ptrdiff_t vocabulary = 12, width = 9, tokens = 20;
  auto const table = random<T>(vocabulary * width, 1);
  auto const dy = random<T>(tokens * width, 2);
  auto const ids = random_ids(tokens, vocabulary, 3);
  std::vector<T> y(dy.size());
  std::vector<A> gradient(table.size());
  parallel::reference::stream plain;
  ops::embedding(plain, matrix(y, tokens), vector(ids), matrix(table, vocabulary));
  ops::embedding_backward(plain, matrix(gradient, vocabulary), matrix(dy, tokens), vector(ids));
  auto const by_slices = [&](auto& s) {
    std::vector<A> sum(dy.size());
    std::vector<A> gradients;
    for (std::ptrdiff_t first = 0; first < vocabulary; first += 4) {
      std::vector<T> const part(table.begin() + first * width, table.begin() + (first + 4) * width);
      std::vector<T> addend(dy.size());
      std::vector<A> slice_gradients(part.size());
      ops::table_slice const slice{.first = first, .vocabulary = vocabulary};
      ops::embedding(s, matrix(addend, tokens), vector(ids), matrix(part, 4), slice);
      ops::embedding_backward(s, matrix(slice_gradients, 4), matrix(dy, tokens), vector(ids),
                              slice);
      s.synchronize();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += A(addend[i]);
      gradients.insert(gradients.end(), slice_gradients.begin(), slice_gradients.end());
    }
    for (std::size_t i = 0; i < sum.size(); ++i) CHECK(A(y[i]) == sum[i]);
    CHECK(gradients == gradient);
  };
  by_slices(plain);
  parallel::host::stream host({.threads = 2});
  by_slices(host);
}

}  // namespace embedding_test
