#include <array>
#include <numeric>
#include <type_traits>

#include <doctest/doctest.h>

#include <parallel/core/tensor.hpp>

namespace tensor_test {
namespace {

using parallel::matrix_view;
using parallel::shape;
using parallel::tensor_view;
using parallel::vector_view;

TEST_CASE("tensor_view: elements are addressed in row-major order") {
  std::array<int, 24> memory{};
  std::iota(memory.begin(), memory.end(), 0);
  tensor_view<int, 3> const view(memory.data(), {2, 3, 4});
  CHECK(view.size() == 24);
  CHECK(view.extent(0) == 2);
  CHECK(view.extent(2) == 4);
  int next = 0;
  for (parallel::index i = 0; i < 2; ++i)
    for (parallel::index j = 0; j < 3; ++j)
      for (parallel::index k = 0; k < 4; ++k) CHECK(view(i, j, k) == next++);
  view(1, 2, 3) = -1;
  CHECK(memory[23] == -1);
  CHECK(view.span().size() == 24);
  CHECK(view.span().data() == memory.data());
}

TEST_CASE("tensor_view: a view of mutable elements converts to one of const elements, not back") {
  static_assert(std::is_convertible_v<matrix_view<float>, matrix_view<float const>>);
  static_assert(!std::is_convertible_v<matrix_view<float const>, matrix_view<float>>);
  static_assert(!std::is_convertible_v<matrix_view<float>, vector_view<float const>>);
  static_assert(std::is_same_v<matrix_view<float const>::value_type, float>);
}

TEST_CASE("tensor_view: slice takes rows of the outermost dimension") {
  std::array<int, 12> memory{};
  std::iota(memory.begin(), memory.end(), 0);
  matrix_view<int> const view(memory.data(), {3, 4});
  auto const rows = view.slice(1, 3);
  CHECK(rows.extents() == shape<2>{2, 4});
  CHECK(rows(0, 0) == 4);
  CHECK(rows(1, 3) == 11);
  CHECK(view.slice(3, 3).empty());
}

TEST_CASE("tensor_view: empty views and views of null memory can be copied and sliced") {
  matrix_view<double> const none;
  CHECK(none.data() == nullptr);
  CHECK(none.empty());
  matrix_view<double> const planned(nullptr, {5, 6});
  CHECK(planned.size() == 30);
  CHECK(planned.slice(2, 4).data() == nullptr);
  CHECK(planned.slice(2, 4).extents() == shape<2>{2, 6});
  CHECK(matrix_view<double>(nullptr, {0, 6}).slice(0, 0).empty());
}

TEST_CASE("volume: the product of the extents of a shape") {
  static_assert(parallel::volume<3>({2, 3, 4}) == 24);
  static_assert(parallel::volume<2>({7, 0}) == 0);
  static_assert(parallel::volume<2>({1 << 20, 1 << 20}) == parallel::index{1} << 40);
}

}  // namespace
}  // namespace tensor_test
