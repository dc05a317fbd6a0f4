// Examples of operations on elements, rows and columns, which the site's reference shows. Each
// names its result, and the program fails if it is another.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <parallel/ops/custom.hpp>
#include <parallel/ops/host.hpp>

#include "operations.hpp"

namespace example {

void copies_and_sums(parallel::host::stream& s) {
  {
    // [example: fill]
    std::vector<float> y(3);
    ops::fill(s, std::span(y), 2.0F);
    expect(s, y, {2, 2, 2});
    // [end]
  }
  {
    // [example: copy]
    std::vector<float> y(3);
    std::vector<float> const x{1, 2, 3};
    ops::copy(s, std::span(y), x);
    expect(s, y, {1, 2, 3});
    // [end]
  }
  {
    // [example: add]
    std::vector<float> y{1, 2, 3};
    std::vector<float> const x{10, 20, 30};
    ops::add(s, std::span(y), x);
    expect(s, y, {11, 22, 33});
    // [end]
  }
  {
    // [example: multiply]
    std::vector<float> y{1, 2, 3};
    std::vector<float> const x{10, 20, 30};
    ops::multiply(s, std::span(y), x);
    expect(s, y, {10, 40, 90});
    // [end]
  }
  {
    // [example: scale]
    std::vector<float> y{1, 2, 3};
    ops::scale(s, std::span(y), 0.5F);
    expect(s, y, {0.5, 1, 1.5});
    // [end]
  }
  {
    // [example: axpby]
    std::vector<float> y{1, 2};
    std::vector<float> const x{10, 20};
    ops::axpby(s, std::span(y), std::span(x), 2.0, 3.0);  // 2 x + 3 y
    expect(s, y, {23, 46});
    // [end]
  }
  {
    // [example: normalise]
    std::vector<float> y{6, 8};
    double norm_squared = 0;
    ops::squared_norm(s, &norm_squared, std::span(y));
    ops::normalise(s, std::span(y), &norm_squared, 1e-12);  // reads it after it was computed
    expect(s, y, {0.6, 0.8});
    // [end]
  }
  {
    // [example: cast]
    std::vector<float> const x{1, 1.00390625F, 3};  // 1 + 2^-8 has one bit more than bf16
    std::vector<parallel::bf16> y(3);
    ops::cast(s, std::span(y), std::span(x));
    expect(s, y, {1, 1, 3});
    // [end]
  }
  {
    // [example: custom]
    std::vector<float> const x{1, 2};
    std::vector<float> y(2);
    auto const square = [](std::span<float> to, std::span<float const> from) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] * from[i];
    };
    ops::custom(s, square, std::span(y), std::span(x));
    expect(s, y, {1, 4});
    // [end]
  }
}

void functions(parallel::host::stream& s) {
  {
    // [example: activation activation_backward]
    std::vector<float> const x{-1, 2}, dy{3, 3};
    std::vector<float> y(2), dx(2);
    ops::activation(s, std::span(y), x, ops::activation_kind::relu);
    ops::activation_backward(s, std::span(dx), x, dy, ops::activation_kind::relu);
    expect(s, y, {0, 2});
    expect(s, dx, {0, 3});
    // [end]
  }
  {
    // [example: softcap softcap_backward]
    std::vector<float> const x{0, 2}, dy{1, 1};
    std::vector<float> y(2), dx(2);
    ops::softcap(s, std::span(y), x, {.cap = 2.0});
    ops::softcap_backward(s, std::span(dx), y, dy, {.cap = 2.0});
    expect(s, y, {0, 2 * std::tanh(1.0)});
    expect(s, dx, {1, 1 - std::tanh(1.0) * std::tanh(1.0)});
    // [end]
  }
  {
    // [example: clip clip_backward]
    std::vector<float> x{-3, 1, 2.5F}, dx{5, 5, 5};
    std::vector<std::uint8_t> inside(3);
    ops::clip(s, std::span(x), inside, 2.0F);
    ops::clip_backward(s, std::span(dx), inside);
    expect(s, x, {-2, 1, 2});
    expect(s, inside, {0, 1, 0});
    expect(s, dx, {0, 5, 0});
    // [end]
  }
  {
    // [example: dropout]
    parallel::philox const random(17, parallel::stream_id("block.0.dropout"));  // 17: the seed
    std::vector<float> const x{1, 2, 3, 4};
    std::vector<float> y(4);
    ops::dropout(s, std::span(y), x, {.probability = 0.5F, .random = random});
    std::vector<double> expected;
    for (std::size_t i = 0; i < 4; ++i)
      expected.push_back(random.uniform(i) >= 0.5F ? 2.0 * double(x[i]) : 0.0);
    expect(s, y, expected);
    // [end]
  }
}

void rows_and_columns(parallel::host::stream& s) {
  {
    // [example: add_bias add_bias_backward]
    std::vector<float> y{1, 2, 3, 4, 5, 6}, bias{10, 20, 30};
    ops::add_bias(s, matrix(y, 2), vector(bias));
    expect(s, y, {11, 22, 33, 14, 25, 36});
    std::vector<float> dy{1, 2, 3, 4, 5, 6}, dbias{0, 0, 100};
    ops::add_bias_backward(s, vector(dbias), matrix(dy, 2));  // adds to dbias
    expect(s, dbias, {5, 7, 109});
    // [end]
  }
  {
    // [example: row_squared_norms]
    std::vector<float> const x{3, 4, 1, 0};
    std::vector<double> norms(2);
    ops::row_squared_norms(s, std::span(norms), std::span(x), {.first = 0, .width = 2});
    expect(s, norms, {25, 1});
    // [end]
  }
  {
    // [example: scale_rows]
    std::vector<float> x{3, 4, 1, 0};
    std::vector<float> const factors{2, 3};
    ops::scale_rows(s, std::span(x), factors, {.first = 0, .width = 2});
    expect(s, x, {6, 8, 3, 0});
    // [end]
  }
  {
    // [example: embedding embedding_backward]
    std::vector<float> table{0, 1, 10, 11, 20, 21};
    std::vector<std::int32_t> ids{2, 0};
    std::vector<float> y(4), dy{1, 2, 3, 4}, dtable(6);
    parallel::vector_view<std::int32_t const> const tokens = vector(ids);
    ops::embedding(s, matrix(y, 2), tokens, matrix(table, 3));
    ops::embedding_backward(s, matrix(dtable, 3), matrix(dy, 2), tokens);
    expect(s, y, {20, 21, 0, 1});
    expect(s, dtable, {3, 4, 0, 0, 1, 2});
    // [end]
  }
  {
    // [example: add_positions add_positions_backward]
    index const sequence = 2;  // two sequences of two tokens, whose rows have one element
    std::vector<float> y{1, 2, 3, 4}, table{10, 20}, dy{1, 2, 3, 4}, dtable(2);
    ops::add_positions(s, matrix(y, 4), matrix(table, 2), sequence);
    ops::add_positions_backward(s, matrix(dtable, 2), matrix(dy, 4), sequence);
    expect(s, y, {11, 22, 13, 24});
    expect(s, dtable, {4, 6});
    // [end]
  }
}

void sums(parallel::host::stream& s) {
  std::vector<float> const x{3, 4};
  {
    // [example: squared_norm]
    std::vector<double> total{0};
    ops::squared_norm(s, total.data(), std::span(x));  // x is {3, 4}
    expect(s, total, {25});
    // [end]
  }
  {
    // [example: exact_squared_norm]
    parallel::exact_sum total;
    ops::exact_squared_norm(s, &total, std::span(x));  // x is {3, 4}
    s.synchronize();
    expect(s, std::vector<double>{total.value()}, {25});
    // [end]
  }
  {
    // [example: sum]
    std::vector<double> total{100};
    ops::sum(s, total.data(), std::span(x));  // x is {3, 4}
    expect(s, total, {107});
    // [end]
  }
  {
    // [example: all_finite]
    std::vector<float> const y{1, INFINITY};
    std::vector<int> finite{1};
    ops::all_finite(s, finite.data(), std::span(y));
    expect(s, finite, {0});
    // [end]
  }
}

}  // namespace example

int main() {
  parallel::host::stream s;
  example::copies_and_sums(s);
  example::functions(s);
  example::rows_and_columns(s);
  example::sums(s);
  std::puts("the examples of operations on elements and rows have the results that they name");
}
