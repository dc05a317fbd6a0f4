#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/device/meta/device.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

namespace sequential_test {
namespace {

using parallel::activation;
using parallel::linear;
using parallel::norm;
using parallel::residual;
using parallel::sequential;

linear<double> dense(std::string const& name, parallel::index out, parallel::index in) {
  return {.weight = {name + ".weight", {out, in}}, .bias = {name + ".bias", {out}}};
}
norm<double> make_norm(std::string const& name, parallel::index width) {
  return {.weight = {name + ".weight", {width}}, .bias = {name + ".bias", {width}}};
}

TEST_CASE("sequential: gradients follow from those of the layers") {
  auto const net = sequential(dense("up", 6, 4), activation<double>{}, dense("down", 3, 6));
  CHECK(parallel::check_layer(net, 3, 4, {.sequence = 3, .scale = 0.7}).compared ==
        12 + 24 + 6 + 18 + 3);
}

TEST_CASE("sequential: a sequence of one layer is that layer") {
  CHECK(parallel::check_layer(sequential(activation<double>{}), 2, 3, {.sequence = 2}).compared ==
        6);
}

TEST_CASE("residual: the input is added to the result and dy to the gradient") {
  CHECK_NOTHROW(parallel::check_layer(residual(activation<double>{}), 3, 5, {.sequence = 3}));
  CHECK_NOTHROW(parallel::check_layer(residual(dense("mix", 5, 5)), 3, 5, {.sequence = 3}));
}

/// A user's layer that does not take a summand.
struct twice {
  using element = double;
  struct saved {};
  template <class Stream>
  parallel::matrix_view<double> forward(parallel::context<Stream>& c,
                                        parallel::matrix_view<double const> x, saved&) const {
    auto const y = c.template allocate<double, 2>(x.extents());
    parallel::ops::copy(c.stream, y.span(), x.span());
    parallel::ops::add(c.stream, y.span(), x.span());
    return y;
  }
  template <class Stream>
  parallel::matrix_view<double> backward_input(parallel::context<Stream>& c,
                                               parallel::matrix_view<double const> dy,
                                               saved& state) const {
    return forward(c, dy, state);
  }
  template <class Stream>
  void backward_weight(parallel::context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

constexpr parallel::index rows = 5;
constexpr parallel::index width = 4;

struct counting_stream : parallel::reference::stream {
  int copies = 0;
};
template <class Arguments>
void run_operation(counting_stream& s, Arguments const& a) {
  s.copies += std::string_view(Arguments::name) == "copy" ? 1 : 0;
  parallel::ops::compute(a);
}

/// y and dx for random inputs.
struct outcome {
  std::vector<double> y, dx;
  int copies = 0;  // in the backward pass
};
/// `writes_into`: dx is written by backward_input_into.
template <class Layer>
outcome run(Layer layer, bool writes_into = false) {
  std::vector<std::vector<double>> values;
  layer.visit_parameters([&](auto& p) {
    auto& v = values.emplace_back(static_cast<std::size_t>(p.size()));
    parallel::initial_values(std::span<double>(v), p.name, parallel::normal_init{1.0F}, 3, 0);
    p.data = v.data();
  });
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  counting_stream stream;
  parallel::context<counting_stream> c{.stream = stream, .memory = memory};
  std::vector<double> x(rows * width), dy(rows * width), dx_memory(rows * width, -1);
  parallel::initial_values(std::span<double>(x), "x", parallel::normal_init{1.0F}, 1, 0);
  parallel::initial_values(std::span<double>(dy), "dy", parallel::normal_init{1.0F}, 1, 0);
  typename Layer::saved state;
  auto const y = layer.forward(c, {x.data(), {rows, width}}, state);
  stream.copies = 0;
  parallel::matrix_view<double const> const gradient(dy.data(), {rows, width});
  parallel::matrix_view<double> dx(dx_memory.data(), {rows, width});
  if (writes_into)
    backward_input_into(layer, c, dx, gradient, state);
  else
    dx = layer.backward_input(c, gradient, state);
  return {{y.data(), y.data() + y.size()}, {dx.data(), dx.data() + dx.size()}, stream.copies};
}

/// Checks that residual(layer) is x + layer(x), up to the rounding of sums in another order.
template <class Layer>
void check_residual(Layer const& layer) {
  std::vector<double> x(rows * width), dy(rows * width);
  parallel::initial_values(std::span<double>(x), "x", parallel::normal_init{1.0F}, 1, 0);
  parallel::initial_values(std::span<double>(dy), "dy", parallel::normal_init{1.0F}, 1, 0);
  auto const branch = run(layer);
  auto const sum = run(residual(layer));
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(std::abs(sum.y[i] - (x[i] + branch.y[i])) <= 1e-14);
    CHECK(std::abs(sum.dx[i] - (dy[i] + branch.dx[i])) <= 1e-14);
  }
}

TEST_CASE("residual: the result is the sum, whichever layers are at the ends of its branch") {
  auto plain = dense("mix", width, width);
  plain.bias = {};
  auto rms = make_norm("norm", width);
  rms.rule = parallel::norm_rule::rms;
  rms.bias = {};
  check_residual(plain);
  check_residual(dense("mix", width, width));
  check_residual(twice{});
  check_residual(sequential(make_norm("norm", width), plain));
  check_residual(
      sequential(rms, dense("up", 7, width), activation<double>{}, dense("down", width, 7)));
  check_residual(sequential(twice{}, plain, twice{}));
  check_residual(sequential(sequential(rms, plain), sequential(twice{}, plain)));
}

/// The number of additions of matrices in a forward and a backward pass.
template <class Layer>
std::uint64_t additions(Layer const& layer) {
  parallel::meta::stream stream;
  parallel::arena memory;
  parallel::context<parallel::meta::stream> c{.stream = stream, .memory = memory};
  parallel::matrix_view<double const> const x(nullptr, {rows, width});
  typename Layer::saved state;
  static_cast<void>(layer.forward(c, x, state));
  static_cast<void>(layer.backward_input(c, x, state));
  std::uint64_t out = 0;
  for (auto const& [name, count] : stream.operations_by_name())
    if (name == "add") out += count / (rows * width);
  return out;
}

TEST_CASE("residual: between a norm and a product it takes no separate addition") {
  auto plain = dense("down", width, 7);
  plain.bias = {};
  CHECK(additions(residual(sequential(make_norm("norm", width), dense("up", 7, width), plain))) ==
        0);
  CHECK(additions(residual(sequential(make_norm("norm", width), dense("mix", width, width)))) == 0);
  CHECK(additions(residual(activation<double>{})) == 2);
  CHECK(additions(residual(sequential(activation<double>{}, dense("mix", width, width)))) == 1);
}

/// The number of copies in backward_input_into, whose result must equal that of backward_input.
template <class Layer>
int copies(Layer const& layer) {
  auto const result_into = run(layer, true);
  CHECK(result_into.dx == run(layer).dx);
  return result_into.copies;
}

TEST_CASE("backward_input_into: the gradient is written in place, without a copy after a norm") {
  using parallel::dropout;
  using parallel::recompute;
  auto const mix = dense("mix", width, width);
  auto const branch = [&](char const* name) {
    return recompute(
        residual(dropout(sequential(make_norm(name, width), recompute(mix)), 0.5F, 7)));
  };
  CHECK(copies(branch("norm")) == 0);
  CHECK(copies(recompute(sequential(branch("norm_1"), branch("norm_2")))) == 0);
  CHECK(copies(make_norm("norm", width)) == 0);
  CHECK(copies(mix) == 1);
  CHECK(copies(residual(mix)) == 1);
  CHECK(copies(sequential(twice{}, mix)) == 2);  // one of its own
}

TEST_CASE("sequential and residual: they nest to a transformer's feed-forward block") {
  auto const block = sequential(residual(sequential(make_norm("norm_1", 4), dense("mix", 4, 4))),
                                residual(sequential(make_norm("norm_2", 4), dense("up", 8, 4),
                                                    activation<double>{}, dense("down", 4, 8))));
  CHECK_NOTHROW(parallel::check_layer(block, 3, 4, {.sequence = 3, .scale = 0.5}));
}

TEST_CASE("sequential: parameters are visited first layer first") {
  auto net = residual(sequential(make_norm("norm", 4), dense("up", 4, 4)));
  std::vector<std::string> names;
  net.visit_parameters([&](auto& p) { names.push_back(p.name); });
  CHECK(names == std::vector<std::string>{"norm.weight", "norm.bias", "up.weight", "up.bias"});
}

}  // namespace
}  // namespace sequential_test
