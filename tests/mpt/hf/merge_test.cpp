#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include <mpt/hf/merge.hpp>
#include <parallel/support/files.hpp>

namespace merge_test {
namespace {

using parallel::index;

std::vector<float> random(std::size_t count, unsigned seed) {
  std::mt19937 numbers(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (auto& value : out) value = uniform(numbers);
  return out;
}

struct adapter {
  static constexpr index out = 5, in = 7, rank = 3;
  std::vector<float> w = random(out * in, 1), a = random(rank * in, 2), b = random(out * rank, 3);
  parallel::matrix_view<float const> a_view{a.data(), {rank, in}};
  parallel::matrix_view<float const> b_view{b.data(), {out, rank}};
};

TEST_CASE("merge: merging adds the scaled product") {
  adapter const x;
  auto merged = x.w;
  mpt::merge_adapter(merged, 0, x.a_view, x.b_view, 0.75);
  for (index row = 0; row < adapter::out; ++row)
    for (index column = 0; column < adapter::in; ++column) {
      auto const element = static_cast<std::size_t>(row * adapter::in + column);
      double sum = x.w[element];
      for (index k = 0; k < adapter::rank; ++k)
        sum += 0.75 * static_cast<double>(x.b_view(row, k)) * x.a_view(k, column);
      CHECK(std::abs(merged[element] - sum) < 1e-6);
    }
}

TEST_CASE("merge: any piece of a weight gets the bits of the whole merge") {
  adapter const x;
  auto whole = x.w;
  mpt::merge_adapter(whole, 0, x.a_view, x.b_view, 2);
  for (std::size_t begin : {0U, 3U, 7U, 13U})
    for (std::size_t const count : {0U, 1U, 7U, 20U}) {
      std::vector<float> piece(x.w.begin() + static_cast<std::ptrdiff_t>(begin),
                               x.w.begin() + static_cast<std::ptrdiff_t>(begin + count));
      mpt::merge_adapter(piece, static_cast<index>(begin), x.a_view, x.b_view, 2);
      for (std::size_t i = 0; i < count; ++i) CHECK(piece[i] == whole[begin + i]);
    }
}

TEST_CASE("merge: factors that do not fit are refused") {
  adapter const x;
  auto w = x.w;
  CHECK(test::contains(test::message_of([&] { mpt::merge_adapter(w, 1, x.a_view, x.b_view, 1); }),
                       "elements [1, 36) are not in a weight of [5, 7]"));
  parallel::matrix_view<float const> const other{x.b.data(), {7, 2}};
  CHECK(test::contains(test::message_of([&] { mpt::merge_adapter(w, 0, x.a_view, other, 1); }),
                       "A has 3 rows, B 2 columns"));
}

}  // namespace
}  // namespace merge_test
