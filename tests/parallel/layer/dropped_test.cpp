// Results that are dropped and recomputed: the bits of a layer that keeps everything, and less
// memory.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/philox.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/dropped.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/reference.hpp>

namespace dropped_test {
namespace {

using parallel::index;
using feed_forward = parallel::feed_forward<parallel::activation<double>>;
using branch = parallel::residual<parallel::sequential<parallel::norm<double>, feed_forward>>;

constexpr index rows = 8, width = 8, hidden = 24;  // rows and columns of whole cache lines

branch make_branch(bool gated, bool adapted, parallel::norm_rule rule, bool is_droppable) {
  feed_forward feed;
  feed.up = {.weight = {"up.weight", {hidden, width}}, .bias = {"up.bias", {hidden}}};
  feed.down = {.weight = {"down.weight", {width, hidden}}, .bias = {"down.bias", {width}}};
  if (gated) feed.gate = {.weight = {"gate.weight", {hidden, width}}, .bias = {}};
  if (adapted) {
    feed.up.adapter = {.a = {"up.a", {2, width}}, .b = {"up.b", {hidden, 2}}};
    feed.down.adapter = {.a = {"down.a", {2, hidden}}, .b = {"down.b", {width, 2}}};
  }
  feed.activate.is_droppable = is_droppable;
  parallel::norm<double> const norm{
      .weight = {"norm.weight", {width}}, .bias = {}, .rule = rule, .is_droppable = is_droppable};
  return branch(parallel::sequential(norm, feed));
}

struct outcome {
  std::vector<double> numbers;  // y, dx and the gradients
  std::size_t kept_bytes = 0;   // after the forward pass
};

/// Runs both passes; released memory is overwritten in between.
outcome run(branch layer, bool with_scratch) {
  std::vector<std::vector<double>> values, gradients;
  layer.visit_parameters([&](auto& p) {
    auto& v = values.emplace_back(static_cast<std::size_t>(p.size()));
    parallel::initial_values(std::span<double>(v), p.name, parallel::normal_init{1.0F}, 5, 0);
    gradients.emplace_back(v.size());
  });
  std::size_t next = 0;
  layer.visit_parameters([&](auto& p) {
    p.data = values[next].data();
    p.gradient_data = gradients[next++].data();
  });
  std::vector<std::byte> space(1 << 16, std::byte{0xff}), other(1 << 16, std::byte{0xff});
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::arena scratch({nullptr, other.data(), other.size()});
  parallel::reference::stream stream;
  parallel::context<parallel::reference::stream> c{.stream = stream, .memory = memory};
  if (with_scratch) c.scratch = &scratch;
  std::vector<double> x(rows * width), dy(rows * width);
  parallel::initial_values(std::span<double>(x), "x", parallel::normal_init{1.0F}, 1, 0);
  parallel::initial_values(std::span<double>(dy), "dy", parallel::normal_init{1.0F}, 1, 0);
  branch::saved state;
  outcome out;
  auto const add = [&](std::span<double const> numbers) {
    out.numbers.insert(out.numbers.end(), numbers.begin(), numbers.end());
  };
  add(layer.forward(c, {x.data(), {rows, width}}, state).span());
  out.kept_bytes = memory.mark();
  CHECK(scratch.mark() == 0);
  std::ranges::fill(other, std::byte{0xff});
  c.scratch = nullptr;
  add(layer.backward_input(c, {dy.data(), {rows, width}}, state).span());
  layer.backward_weight(c, state);
  for (auto const& g : gradients) add(g);
  return out;
}

bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST_CASE("dropped results: recomputation gives the same bits, and the results are not kept") {
  using parallel::norm_rule;
  for (bool const gated : {false, true})
    for (bool const adapted : {false, true})
      for (auto const rule : {norm_rule::layer, norm_rule::rms}) {
        CAPTURE(gated);
        CAPTURE(adapted);
        auto const keeping = run(make_branch(gated, adapted, rule, false), true);
        auto const dropping = run(make_branch(gated, adapted, rule, true), true);
        CHECK(same_bits(dropping.numbers, keeping.numbers));
        CHECK(keeping.kept_bytes - dropping.kept_bytes == rows * (width + hidden) * sizeof(double));
      }
}

TEST_CASE("dropped results: without a scratch arena everything is kept") {
  auto const keeping = run(make_branch(false, false, parallel::norm_rule::layer, false), false);
  auto const dropping = run(make_branch(false, false, parallel::norm_rule::layer, true), false);
  CHECK(same_bits(dropping.numbers, keeping.numbers));
  CHECK(keeping.kept_bytes == dropping.kept_bytes);
}

}  // namespace
}  // namespace dropped_test
