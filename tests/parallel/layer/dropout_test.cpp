#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/pointwise/dropout.hpp>
#include <parallel/ops/reference.hpp>

namespace dropout_layer_test {
namespace {

using parallel::index;
using parallel::matrix_view;
using parallel::pass;

/// y = 1, whatever x is: its dropout shows the mask.
struct constant_one {
  using element = float;
  struct saved {};
  template <class Stream>
  matrix_view<float> forward(parallel::context<Stream>& c, matrix_view<float const> x,
                             saved&) const {
    auto y = c.template allocate<float, 2>(x.extents());
    for (float& value : y.span()) value = 1.0F;
    return y;
  }
  template <class Stream>
  matrix_view<float> backward_input(parallel::context<Stream>& c, matrix_view<float const> dy,
                                    saved&) const {
    auto dx = c.template allocate<float, 2>(dy.extents());
    std::copy(dy.span().begin(), dy.span().end(), dx.span().begin());
    return dx;
  }
  template <class Stream>
  void backward_weight(parallel::context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

std::vector<float> mask(float p, index rows, index width, parallel::position position,
                        index sequence = 1, pass mode = pass::training,
                        std::uint32_t operation = 77) {
  parallel::dropout<constant_one> const layer(constant_one{}, p, operation);
  std::vector<std::byte> space(1 << 20);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory, mode, position, sequence};
  std::vector<float> const x(static_cast<std::size_t>(rows * width), 3.0F);
  constant_one::saved state;
  auto const y = layer.forward(c, {x.data(), {rows, width}}, state);
  return {y.span().begin(), y.span().end()};
}

TEST_CASE("dropout: gradients are those of the forward pass, with the same mask in both") {
  parallel::norm<double> const norm{.weight = {"w", {8}}, .bias = {"b", {8}}};
  for (std::uint32_t step : {0U, 5U})
    CHECK_NOTHROW(parallel::check_layer(
        parallel::dropout(norm, 0.4F, 123U), 6, 8,
        {.sequence = 3, .run_position = {.seed = 9, .step = step, .first_sequence = 2}}));
  CHECK_NOTHROW(parallel::check_layer(parallel::dropout(parallel::activation<double>{}, 0.0F, 0U),
                                      3, 4, {.sequence = 3}));
}

TEST_CASE("dropout: elements are zeroed with the given probability and the others scaled") {
  auto const y = mask(0.25F, 100, 100, {.seed = 1});
  double dropped = 0;
  for (float const value : y) {
    CHECK_MESSAGE((value == 0.0F || value == doctest::Approx(1.0 / 0.75)), value);
    dropped += value == 0.0F ? 1 : 0;
  }
  CHECK(std::fabs(dropped / 10000 - 0.25) < 5 * std::sqrt(0.25 * 0.75 / 10000));
}

TEST_CASE("dropout: the mask of a sequence does not depend on its microbatch") {
  // sequences of 3 rows: 0..3 in one microbatch, or 2..3 in their own microbatch
  auto const whole = mask(0.5F, 12, 7, {.seed = 4, .step = 6, .first_sequence = 0}, 3);
  auto const half = mask(0.5F, 6, 7, {.seed = 4, .step = 6, .first_sequence = 2}, 3);
  CHECK(std::vector<float>(whole.begin() + 42, whole.end()) == half);
}

TEST_CASE("dropout: the mask changes with seed, step and operation") {
  parallel::position const position{.seed = 4, .step = 6};
  auto const base = mask(0.5F, 4, 16, position);
  CHECK(mask(0.5F, 4, 16, position) == base);
  CHECK(mask(0.5F, 4, 16, {.seed = 5, .step = 6}) != base);
  CHECK(mask(0.5F, 4, 16, {.seed = 4, .step = 7}) != base);
  CHECK(mask(0.5F, 4, 16, position, 1, pass::training, 78) != base);
}

TEST_CASE("dropout: does nothing in inference and with probability 0") {
  CHECK(mask(0.5F, 3, 4, {}, 1, pass::inference) == std::vector<float>(12, 1.0F));
  CHECK(mask(0.0F, 3, 4, {}) == std::vector<float>(12, 1.0F));
}

}  // namespace
}  // namespace dropout_layer_test
