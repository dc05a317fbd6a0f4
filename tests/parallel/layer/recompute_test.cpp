#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/device/meta/device.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

namespace recompute_test {
namespace {

using parallel::arena;
using parallel::index;
using parallel::matrix_view;
using parallel::recompute;
using parallel::residual;
using parallel::sequential;

using feed_forward = parallel::feed_forward<parallel::activation<double>>;
using branch = residual<parallel::dropout<feed_forward>>;

branch make_branch() {
  feed_forward feed;
  feed.up = {.weight = {"up.weight", {24, 4}}, .bias = {"up.bias", {24}}};
  feed.down = {.weight = {"down.weight", {4, 24}}, .bias = {"down.bias", {4}}};
  return branch(parallel::dropout(feed, 0.3F, 77));
}

using column = sequential<recompute<branch>, recompute<branch>>;

column make_column(bool active) {
  return column(recompute(make_branch(), active), recompute(make_branch(), active));
}

constexpr index rows = 6;
constexpr index width = 4;

struct outcome {
  std::vector<double> y, dx, gradients;
  std::size_t kept_bytes = 0;  // after the forward pass
};

/// Runs both passes; released memory is overwritten in between.
template <class Layer>
outcome run(Layer layer, bool one_arena) {
  std::vector<std::vector<double>> values, gradients;
  layer.visit_parameters([&](auto& p) {
    auto& v = values.emplace_back(static_cast<std::size_t>(p.size()));
    parallel::initial_values(std::span<double>(v), p.name, parallel::normal_init{1.0F},
                             values.size(), 0);
    gradients.emplace_back(v.size());
  });
  std::size_t next = 0;
  layer.visit_parameters([&](auto& p) {
    p.data = values[next].data();
    p.gradient_data = gradients[next++].data();
  });
  std::vector<std::byte> space(1 << 16, std::byte{0xff});
  std::vector<std::byte> other(1 << 16, std::byte{0xff});
  arena memory({nullptr, space.data(), space.size()});
  arena scratch({nullptr, other.data(), other.size()});
  parallel::reference::stream stream;
  parallel::context<parallel::reference::stream> c{
      .stream = stream, .memory = memory, .run_position = {.seed = 3}, .share = {.first_row = 2}};
  if (!one_arena) c.scratch = &scratch;
  std::vector<double> x(rows * width), dy(rows * width);
  parallel::initial_values(std::span<double>(x), "x", parallel::normal_init{1.0F}, 1, 0);
  parallel::initial_values(std::span<double>(dy), "dy", parallel::normal_init{1.0F}, 1, 0);
  typename Layer::saved state;
  outcome out;
  auto const y = layer.forward(c, {x.data(), {rows, width}}, state);
  out.y.assign(y.data(), y.data() + y.size());
  out.kept_bytes = memory.mark();
  CHECK(scratch.mark() == 0);
  std::fill(other.begin(), other.end(), std::byte{0xff});
  std::fill(space.begin() + static_cast<std::ptrdiff_t>(memory.mark()), space.end(),
            std::byte{0xff});
  auto const dx = layer.backward_input(c, {dy.data(), {rows, width}}, state);
  out.dx.assign(dx.data(), dx.data() + dx.size());
  layer.backward_weight(c, state);
  for (auto const& g : gradients) out.gradients.insert(out.gradients.end(), g.begin(), g.end());
  return out;
}

using bare_feed_forward = parallel::feed_forward<parallel::activation<double>>;
using whole_branch = recompute<
    residual<parallel::dropout<sequential<parallel::norm<double>, recompute<bare_feed_forward>>>>>;

whole_branch make_whole_branch(bool biased, float drops, bool whole_branch_active,
                               bool inner_active) {
  bare_feed_forward feed;
  feed.up = {.weight = {"up.weight", {24, width}}, .bias = {}};
  feed.down = {.weight = {"down.weight", {width, 24}}, .bias = {}};
  if (biased) feed.down.bias = {"down.bias", {width}};
  parallel::norm<double> const norm{.weight = {"norm.weight", {width}}, .bias = {}};
  return whole_branch(
      residual(parallel::dropout(sequential(norm, recompute(feed, inner_active)), drops, 77)),
      whole_branch_active);
}

bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST_CASE("recompute: gradients are those of the layer") {
  CHECK_NOTHROW(parallel::check_layer(
      make_column(true), rows, width,
      {.sequence = rows, .scale = 0.5, .run_position = {.seed = 9, .step = 2}}));
}

TEST_CASE("recompute: result and gradients have the bits of the layer that keeps everything") {
  auto const keeping = run(make_column(false), true);
  for (bool const one_arena : {true, false}) {
    auto const dropping = run(make_column(true), one_arena);
    CHECK(same_bits(dropping.y, keeping.y));
    CHECK(same_bits(dropping.dx, keeping.dx));
    CHECK(same_bits(dropping.gradients, keeping.gradients));
    // two results, in whole cache lines, and nothing else
    CHECK(dropping.kept_bytes == 2 * rows * width * sizeof(double));
    CHECK(keeping.kept_bytes == 2 * rows * (24 + 24 + width) * sizeof(double));
  }
}

/// Bytes kept, peak bytes, and operations of a forward and a backward pass.
struct cost {
  std::size_t kept_bytes = 0;
  std::size_t peak = 0;
  std::uint64_t operations = 0;
};
cost measure(bool active, parallel::pass mode) {
  auto const layer = make_column(active);
  parallel::meta::stream stream;
  arena memory;
  parallel::context<parallel::meta::stream> c{.stream = stream, .memory = memory, .mode = mode};
  column::saved state;
  matrix_view<double const> const x(nullptr, {rows, width});
  static_cast<void>(layer.forward(c, x, state));
  cost out{.kept_bytes = memory.mark()};
  if (mode == parallel::pass::training) {
    static_cast<void>(layer.backward_input(c, x, state));
    layer.backward_weight(c, state);
  }
  out.peak = memory.peak();
  for (auto const& [name, count] : stream.operations_by_name()) out.operations += count;
  return out;
}

TEST_CASE("recompute: the meta device counts the saved memory and the repeated work") {
  using enum parallel::pass;
  auto const keeping = measure(false, training);
  auto const dropping = measure(true, training);
  CHECK(dropping.kept_bytes == 2 * rows * width * sizeof(double));
  CHECK(dropping.kept_bytes < keeping.kept_bytes);
  // the forward pass runs twice
  CHECK(dropping.operations > keeping.operations);
  // including its dropout, after which the input is added
  CHECK(dropping.operations - keeping.operations ==
        measure(true, inference).operations + 2 * rows * width);
}

TEST_CASE("recompute: an inference pass is that of the layer") {
  CHECK(measure(true, parallel::pass::inference).kept_bytes ==
        measure(false, parallel::pass::inference).kept_bytes);
}

TEST_CASE(
    "recompute: a branch recomputed as a whole or inside its residual connection has the same "
    "bits") {
  for (bool const biased : {false, true})
    for (float const drops : {0.0F, 0.4F}) {
      CAPTURE(biased);
      CAPTURE(drops);
      CHECK_NOTHROW(parallel::check_layer(
          make_whole_branch(biased, drops, true, true), rows, width,
          {.sequence = rows, .scale = 0.5, .run_position = {.seed = 9, .step = 2}}));
      auto const keeping = run(make_whole_branch(biased, drops, false, false), true);
      for (bool const whole_branch_active : {false, true})
        for (bool const one_arena : {false, true}) {
          auto const dropping =
              run(make_whole_branch(biased, drops, whole_branch_active, true), one_arena);
          CHECK(same_bits(dropping.y, keeping.y));
          CHECK(same_bits(dropping.dx, keeping.dx));
          CHECK(same_bits(dropping.gradients, keeping.gradients));
        }
    }
}

TEST_CASE(
    "recompute: the input is added after dropout where that is active, otherwise in the product") {
  for (bool const biased : {false, true})
    for (float const drops : {0.0F, 0.4F}) {
      parallel::meta::stream stream;
      arena memory;
      parallel::context<parallel::meta::stream> c{.stream = stream, .memory = memory};
      auto const layer = make_whole_branch(biased, drops, false, true);
      whole_branch::saved state;
      matrix_view<double const> const x(nullptr, {rows, width});
      static_cast<void>(layer.forward(c, x, state));
      static_cast<void>(layer.backward_input(c, x, state));
      std::uint64_t added = 0;
      for (auto const& [name, count] : stream.operations_by_name())
        if (name == "add") added += count;
      CHECK(added == (drops > 0.0F ? rows * width : 0));
    }
}

TEST_CASE("recompute: a layer that changes the width is refused") {
  recompute const layer(parallel::linear<double>{.weight = {"w", {3, width}}, .bias = {}}, true);
  parallel::meta::stream stream;
  arena memory;
  parallel::context<parallel::meta::stream> c{.stream = stream, .memory = memory};
  decltype(layer)::saved state;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(layer.forward(c, {nullptr, {rows, width}}, state)),
      "recompute: the layer turned [6, 4] into [6, 3]; it must leave the extents of its input",
      parallel::error);
}

}  // namespace
}  // namespace recompute_test
