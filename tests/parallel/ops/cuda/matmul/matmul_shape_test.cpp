// A product's shape, and the mapping of row-major products to column-major libraries.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/ops/cuda/matmul/matmul_shape.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/reference.hpp>

namespace matmul_shape_test {

using namespace parallel;
using cuda::column_major;
using cuda::matmul_shape;

// 4 tokens; 3 features in, 2 out.
constexpr matmul_shape forward{.m = 4, .n = 2, .k = 3, .transpose_b = true};
constexpr matmul_shape input_gradient{.m = 4, .n = 3, .k = 2};
constexpr matmul_shape weight_gradient{.m = 2, .n = 3, .k = 4, .transpose_a = true};

static_assert(column_major(forward) == cuda::column_major_product{.first = {true, 3, 2, 3},
                                                                  .second = {false, 3, 4, 3},
                                                                  .result = {false, 2, 4, 2}});
static_assert(column_major(input_gradient) ==
              cuda::column_major_product{.first = {false, 3, 2, 3},
                                         .second = {false, 2, 4, 2},
                                         .result = {false, 3, 4, 3}});
static_assert(column_major(weight_gradient) ==
              cuda::column_major_product{.first = {false, 3, 4, 3},
                                         .second = {true, 2, 4, 2},
                                         .result = {false, 3, 2, 3}});

/// The operation of a column-major library: result += op(first) op(second), with the checks of
/// sizes that such libraries make.
void multiply(cuda::column_major_product const& p, std::vector<double>& result,
              std::vector<double> const& first, std::vector<double> const& second) {
  auto const element = [](cuda::column_major_matrix const& x, std::vector<double> const& values,
                          parallel::index row, parallel::index column) {
    if (x.transpose) std::swap(row, column);
    REQUIRE(row < x.rows);
    REQUIRE(column < x.columns);
    REQUIRE(x.leading >= x.rows);
    return values.at(static_cast<std::size_t>(row + column * x.leading));
  };
  auto const& [a, b, c] = p;
  parallel::index const depth = a.transpose ? a.rows : a.columns;
  CHECK((a.transpose ? a.columns : a.rows) == c.rows);
  CHECK((b.transpose ? b.rows : b.columns) == c.columns);
  CHECK((b.transpose ? b.columns : b.rows) == depth);
  for (parallel::index j = 0; j < c.columns; ++j)
    for (parallel::index i = 0; i < c.rows; ++i)
      for (parallel::index d = 0; d < depth; ++d)
        result.at(static_cast<std::size_t>(i + j * c.leading)) +=
            element(a, first, i, d) * element(b, second, d, j);
}

TEST_CASE(
    "column_major: a column-major library given the mapped product computes the row-major one") {
  parallel::index const m = 3, n = 5, k = 4;
  auto const numbers = [](parallel::index count, double step) {
    std::vector<double> out;
    for (parallel::index i = 0; i < count; ++i)
      out.push_back(1 + step * static_cast<double>(i * i));
    return out;
  };
  auto const a = numbers(m * k, 2);
  auto const b = numbers(k * n, 3);
  for (bool const transpose_a : {false, true})
    for (bool const transpose_b : {false, true}) {
      std::vector<double> expected(m * n), c(m * n);
      reference::stream ref_stream;
      ops::matmul_options const options{.transpose_a = transpose_a, .transpose_b = transpose_b};
      matrix_view<double const> const view_a(a.data(),
                                             transpose_a ? shape<2>{k, m} : shape<2>{m, k});
      matrix_view<double const> const view_b(b.data(),
                                             transpose_b ? shape<2>{n, k} : shape<2>{k, n});
      matrix_view<double> const view_c(c.data(), {m, n});
      ops::matmul(ref_stream, matrix_view<double>(expected.data(), {m, n}), view_a, view_b,
                  options);
      multiply(column_major(cuda::shape_of(view_c, view_a, view_b, options)), c, b, a);
      CHECK(c == expected);
    }
}

TEST_CASE("shape_of: a shape holds extents, options, types and alignments of the product") {
  alignas(32) bf16 a[64];
  alignas(32) bf16 b[64];
  alignas(32) float c[64];
  auto const shape =
      cuda::shape_of(matrix_view<float>(c + 1, {2, 3}), matrix_view<bf16 const>(a + 1, {4, 2}),
                     matrix_view<bf16 const>(b, {3, 4}),
                     {.transpose_a = true, .transpose_b = true, .accumulate = true});
  CHECK(shape == matmul_shape{.m = 2,
                              .n = 3,
                              .k = 4,
                              .transpose_a = true,
                              .transpose_b = true,
                              .accumulate = true,
                              .input = dtype::bf16,
                              .output = dtype::f32,
                              .alignment_a = 2,
                              .alignment_b = 16,
                              .alignment_c = 4});
}

TEST_CASE("shape_of: the alignment of the addend limits that of C") {
  alignas(32) float a[64];
  alignas(32) float c[64];
  alignas(32) float addend[64];
  matrix_view<float const> const x(a, {4, 4});
  auto const aligned_to = [&](float const* addend) {
    return cuda::shape_of(matrix_view<float>(c, {4, 4}), x, x, {.accumulate = true},
                          {addend, {4, 4}})
        .alignment_c;
  };
  CHECK(aligned_to(c) == 16);
  CHECK(aligned_to(addend) == 16);
  CHECK(aligned_to(addend + 2) == 8);
  CHECK(cuda::shape_of(matrix_view<float>(c + 1, {4, 4}), x, x, {}).alignment_c == 4);
}

TEST_CASE("alignment_of: alignments are powers of two, at most 16 bytes") {
  alignas(64) char memory[64];
  CHECK(cuda::alignment_of(memory) == 16);
  CHECK(cuda::alignment_of(memory + 48) == 16);
  CHECK(cuda::alignment_of(memory + 8) == 8);
  CHECK(cuda::alignment_of(memory + 12) == 4);
  CHECK(cuda::alignment_of(memory + 2) == 2);
  CHECK(cuda::alignment_of(memory + 7) == 1);
}

}  // namespace matmul_shape_test
