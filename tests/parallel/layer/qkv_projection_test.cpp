// The projection to [Q | K | V]: one matrix and three matrices give the same result, and gradients
// are those of the forward pass.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/qkv_projection.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/pointwise/clip.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

namespace qkv_projection_test {

using parallel::index;
using projection = parallel::qkv_projection<double>;

/// The projection as a layer for `check_layer`: it copies the gradient, which the projection
/// overwrites.
struct as_layer {
  using element = double;
  using saved = projection::saved;
  projection inner;

  template <class Stream>
  auto forward(parallel::context<Stream>& c, parallel::matrix_view<double const> x,
               saved& state) const {
    return inner.forward(c, x, state);
  }
  template <class Stream>
  auto backward_input(parallel::context<Stream>& c, parallel::matrix_view<double const> dy,
                      saved& state) const {
    auto const contiguous = c.template allocate<double, 2>(dy.extents());
    parallel::ops::copy(c.stream, contiguous.span(), dy.span());
    return inner.backward_input(c, contiguous, state);
  }
  template <class Stream>
  void backward_weight(parallel::context<Stream>& c, saved const& state) const {
    inner.backward_weight(c, state);
  }
  void visit_parameters(auto&& visit) { inner.visit_parameters(visit); }
};

projection three_matrices(bool biased) {
  std::vector<parallel::linear<double>> out;
  index const widths[] = {6, 2, 2};
  std::string const names[] = {"Wq", "Wk", "Wv"};
  for (std::size_t i = 0; i < 3; ++i) {
    parallel::linear<double> part;
    part.weight = {names[i] + ".weight", {widths[i], 5}};
    if (biased) part.bias = {names[i] + ".bias", {widths[i]}};
    out.push_back(part);
  }
  return projection(out);
}

projection one_matrix() {
  return projection({{.weight = {"Wqkv.weight", {10, 5}}, .bias = {"Wqkv.bias", {10}}}});
}

TEST_CASE(
    "qkv projection: gradients are those of the forward pass, with one matrix or three, with or "
    "without clipping") {
  auto const single = one_matrix();
  for (float const clip : {0.0F, 0.8F})
    for (projection inner : {single, three_matrices(true)}) {
      inner.clip = clip;
      CHECK(parallel::check_layer(as_layer{inner}, 4, 5, {.sequence = 2}).compared ==
            4 * 5 + 10 * 5 + 10);
    }
  CHECK(parallel::check_layer(as_layer{three_matrices(false)}, 4, 5, {.sequence = 2}).compared ==
        4 * 5 + 10 * 5);
}

/// The results of one forward and backward pass for x and dy, with integers as weights.
struct passed {
  std::vector<double> y, dx, d_weight, d_bias;
  friend bool operator==(passed const&, passed const&) = default;
};

passed run(projection layer, float clip) {
  layer.clip = clip;
  std::vector<double> weight(50), bias(10), x(15), dy(30);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<double>(i * 7 % 11) - 5;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(i) - 4;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 5 % 7) - 3;
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i * 3 % 13) - 6;
  passed out{{}, {}, std::vector<double>(50), std::vector<double>(10)};
  index row = 0;
  auto const bind = [&](auto& part) {  // the rows of the parts are consecutive
    part.weight.data = weight.data() + row * 5;
    part.weight.gradient_data = out.d_weight.data() + row * 5;
    part.bias.data = bias.data() + row;
    part.bias.gradient_data = out.d_bias.data() + row;
    row += part.weight.extents[0];
  };
  bind(layer.first);
  for (auto& part : layer.remaining) bind(part);
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  projection::saved state;
  auto const y = layer.forward(c, {x.data(), {3, 5}}, state);
  out.y.assign(y.span().begin(), y.span().end());
  auto const dx = layer.backward_input(c, {dy.data(), {3, 10}}, state);
  out.dx.assign(dx.span().begin(), dx.span().end());
  layer.backward_weight(c, state);
  return out;
}

TEST_CASE("qkv projection: three matrices side by side equal one matrix, exactly") {
  auto const single = one_matrix();
  for (float const clip : {0.0F, 9.0F}) {
    CAPTURE(clip);
    auto const whole = run(single, clip);
    CHECK(run(three_matrices(true), clip) == whole);
    auto const greatest = *std::ranges::max_element(whole.y);
    CHECK((clip == 0.0F ? greatest > 9.0 : greatest == 9.0));
  }
  CHECK(run(single, 9.0F).dx != run(single, 0.0F).dx);  // clipping stops the gradient
}

}  // namespace qkv_projection_test
