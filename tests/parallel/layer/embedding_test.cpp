#include <array>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/ops/embedding.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

namespace embedding_layer_test {
namespace {

using parallel::context;
using parallel::matrix_view;

/// y = x + table[ids] with fixed ids: an embedding as a layer, so that check_layer takes it.
struct embedded {
  using element = double;
  struct saved {
    matrix_view<double const> dy;
  };

  parallel::embedding<double> table;
  std::array<std::int32_t, 5> ids{};

  [[nodiscard]] parallel::vector_view<std::int32_t const> tokens() const {
    return {ids.data(), {5}};
  }
  template <class Stream>
  matrix_view<double> forward(context<Stream>& c, matrix_view<double const> x, saved&) const {
    auto y = table.forward(c, tokens());
    parallel::ops::add(c.stream, y.span(), x.span());
    return y;
  }
  template <class Stream>
  matrix_view<double> backward_input(context<Stream>& c, matrix_view<double const> dy,
                                     saved& state) const {
    state.dy = dy;
    auto dx = c.template allocate<double, 2>(dy.extents());
    parallel::ops::copy(c.stream, dx.span(), dy.span());
    return dx;
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    table.backward_weight(c, tokens(), state.dy);
  }
  void visit_parameters(auto&& visit) { table.visit_parameters(visit); }
};

TEST_CASE("embedding: the gradient adds the rows of every position of a token") {
  // token 2 three times, tokens 1 and 4 never
  embedded const layer{{.weight = {"wte.weight", {5, 3}}}, {2, 0, 2, 3, 2}};
  CHECK(parallel::check_layer(layer, 5, 3, {.sequence = 5}).compared == 15 + 15);
}

TEST_CASE("embedding: the result is rows of the table") {
  parallel::embedding<float> layer{.weight = {"wte.weight", {3, 2}}};
  std::vector<float> table = {0, 1, 10, 11, 20, 21};
  layer.weight.data = table.data();
  std::vector<std::byte> space(4096);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  context<parallel::reference::stream> c{s, memory};
  std::array<std::int32_t, 4> const ids = {2, 0, 2, 1};
  auto const y = layer.forward(c, {ids.data(), {4}});
  CHECK(std::vector<float>(y.span().begin(), y.span().end()) ==
        std::vector<float>{20, 21, 0, 1, 20, 21, 10, 11});
}

}  // namespace
}  // namespace embedding_layer_test
