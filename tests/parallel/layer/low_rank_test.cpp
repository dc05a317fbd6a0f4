// low_rank with a linear layer: gradients, exact and by differences; the added term; its dropout.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <parallel/conformance/layer.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/reference.hpp>

namespace low_rank_test {
namespace {

using parallel::index;

template <class T>
parallel::linear<T> adapted(index out, index in, index rank, double scale, bool biased) {
  parallel::linear<T> layer{.weight = {"w", {out, in}}, .bias = {}, .adapter = {}};
  if (biased) layer.bias = {"bias", {out}};
  layer.adapter = {.a = {"w.lora_A", {rank, in}}, .b = {"w.lora_B", {out, rank}}, .scale = scale};
  return layer;
}

TEST_CASE("low-rank adapter: gradients are those of the forward pass, with bias and dropout") {
  for (bool const biased : {false, true})
    for (float const dropout : {0.0F, 0.4F}) {
      auto layer = adapted<double>(5, 3, 2, 1.5, biased);
      layer.adapter.dropout = dropout;
      index const parameters = 5 * 3 + 2 * 3 + 5 * 2 + (biased ? 5 : 0);
      CHECK(parallel::check_layer(layer, 4, 3, {.sequence = 2}).compared == 4 * 3 + parameters);
    }
}

TEST_CASE("low-rank adapter: over integers gradients are exact, and the summand is added once") {
  for (bool const biased : {false, true})
    parallel::conformance::check_ring_layer<parallel::host::stream>(
        adapted<std::uint64_t>(7, 4, 3, 6, biased), 5, 4);
}

struct bound {
  parallel::linear<double> layer;
  std::vector<double> w, a, b;

  explicit bound(double scale) : layer(adapted<double>(2, 3, 1, scale, false)) {
    w = {1, 2, 3, 4, 5, 6};
    a = {1, -1, 2};
    b = {3, -2};
    layer.weight.data = w.data();
    layer.adapter.a.data = a.data();
    layer.adapter.b.data = b.data();
  }

  [[nodiscard]] std::vector<double> forward(std::vector<double> const& x, parallel::pass mode) {
    std::vector<std::byte> space(4096);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::reference::stream s;
    parallel::context<parallel::reference::stream> c{s, memory, mode};
    parallel::linear<double>::saved state;
    auto const y = layer.forward(c, {x.data(), {static_cast<index>(x.size()) / 3, 3}}, state);
    return {y.span().begin(), y.span().end()};
  }
};

TEST_CASE("low-rank adapter: adds scale times B A x") {
  bound network(0.5);
  // W x is 8 and 18 + ..., A x = 7, so that B A x / 2 is 10.5 and -7
  CHECK(network.forward({1, 0, 3}, parallel::pass::training) == std::vector<double>{20.5, 15});
}

TEST_CASE("low-rank adapter: dropout applies to the adapter's input alone, and only in training") {
  bound network(1);
  network.layer.adapter.dropout = 0.5F;
  network.layer.adapter.operation = 5;
  std::vector<double> const x = {1, 0, 3};
  CHECK(network.forward(x, parallel::pass::inference) == std::vector<double>{31, 8});
  parallel::philox const random = parallel::philox(0, 5, 0);
  double inner = 0;
  for (std::size_t i = 0; i < 3; ++i)
    if (random.uniform(i) >= 0.5F) inner += 2 * x[i] * network.a[i];
  CHECK(network.forward(x, parallel::pass::training) ==
        std::vector<double>{10 + 3 * inner, 22 - 2 * inner});
}

TEST_CASE("low-rank adapter: its two factors are visited after the parameters of its layer") {
  auto layer = adapted<float>(2, 3, 1, 1, true);
  std::vector<std::string> names;
  layer.visit_parameters([&](auto& p) { names.push_back(p.name); });
  CHECK(names == std::vector<std::string>{"w", "bias", "w.lora_A", "w.lora_B"});
}

}  // namespace
}  // namespace low_rank_test
