#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/reference.hpp>

namespace norm_layer_test {
namespace {

using parallel::norm;
using parallel::norm_rule;

norm<double> layer_norm(parallel::index width) {
  return {.weight = {"norm.weight", {width}}, .bias = {"norm.bias", {width}}, .eps = 1e-5F};
}

norm<double> rms_norm(parallel::index width) {
  return {.weight = {"norm.weight", {width}}, .bias = {}, .eps = 1e-5F, .rule = norm_rule::rms};
}

TEST_CASE("norm: gradients are those of the forward pass, by both rules") {
  CHECK(parallel::check_layer(layer_norm(9), 4, 9, {.sequence = 2}).compared == 4 * 9 + 9 + 9);
  auto bare = layer_norm(9);
  bare.bias = {};
  CHECK(parallel::check_layer(bare, 4, 9, {.sequence = 2}).compared == 4 * 9 + 9);
  CHECK(parallel::check_layer(rms_norm(9), 4, 9, {.sequence = 2}).compared == 4 * 9 + 9);
  for (auto layer : {layer_norm(9), rms_norm(9)}) {
    layer.weight_offset = 1;
    CHECK_NOTHROW(parallel::check_layer(layer, 4, 9, {.sequence = 2}));
  }
}

/// The reference device, with the fused norm_gradients operation.
struct summing_stream : parallel::reference::stream {
  int summed = 0;
};
template <class Arguments>
void run_operation(summing_stream& s, Arguments const& a) {
  s.summed += std::string_view(Arguments::name) == "norm_gradients" ? 1 : 0;
  parallel::ops::compute(a);
}

}  // namespace
}  // namespace norm_layer_test

template <>
inline constexpr bool parallel::ops::sums_norm_gradients<norm_layer_test::summing_stream> = true;

namespace norm_layer_test {
namespace {

/// dx, and the gradients of weight and bias after 33 rows, if they are not frozen.
template <class Stream>
std::vector<double> gradients_on(Stream& s, norm<double> layer, bool frozen) {
  auto const filled = [](std::size_t count, double begin) {
    std::vector<double> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = std::sin(begin + static_cast<double>(i * i));
    return out;
  };
  auto weight = filled(9, 1), bias = filled(9, 2), x = filled(297, 3), dy = filled(297, 4);
  auto d_weight = filled(9, 5), d_bias = filled(9, 6);
  layer.weight.data = weight.data();
  layer.weight.gradient_data = d_weight.data();
  layer.bias.data = bias.data();
  layer.bias.gradient_data = d_bias.data();
  layer.weight.trainable = layer.bias.trainable = !frozen;
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::context<Stream> c{s, memory};
  decltype(layer)::saved state;
  static_cast<void>(layer.forward(c, {x.data(), {33, 9}}, state));
  auto const dx = layer.backward_input(c, {dy.data(), {33, 9}}, state);
  layer.backward_weight(c, state);
  std::vector<double> out(dx.data(), dx.data() + dx.size());
  out.insert(out.end(), d_weight.begin(), d_weight.end());
  out.insert(out.end(), d_bias.begin(), d_bias.end());
  return out;
}

TEST_CASE("norm: sums from the input-gradient pass give the gradients of the weights") {
  auto bare = layer_norm(9);
  bare.bias = {};
  auto offset = rms_norm(9);
  offset.weight_offset = 1;
  for (auto const& layer : {layer_norm(9), bare, rms_norm(9), offset})
    for (bool const frozen : {false, true}) {
      CAPTURE(frozen);
      parallel::reference::stream separate_stream;
      summing_stream summing;
      auto const expected = gradients_on(separate_stream, layer, frozen);
      auto const got = gradients_on(summing, layer, frozen);
      CHECK(summing.summed == (frozen ? 0 : 1));
      REQUIRE(got.size() == expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-13);
    }
}

TEST_CASE("norm: gradients are correct where eps matters") {
  for (auto layer : {layer_norm(6), rms_norm(6)}) {
    layer.eps = 0.25F;
    CHECK_NOTHROW(parallel::check_layer(layer, 3, 6, {.sequence = 3, .scale = 0.5}));
  }
}

TEST_CASE(
    "norm: with unit weight, layer gives rows of mean 0 and variance 1, rms of mean square 1") {
  for (auto layer : {layer_norm(64), rms_norm(64)}) {
    std::vector<double> weight(64, 1.0);
    std::vector<double> bias(64, 0.0);
    layer.weight.data = weight.data();
    layer.bias.data = bias.data();
    std::vector<double> x(3 * 64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i * i)) * 10 + 5;
    std::vector<std::byte> space(1 << 16);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::reference::stream s;
    parallel::context<parallel::reference::stream> c{s, memory};
    decltype(layer)::saved state;
    auto const y = layer.forward(c, {x.data(), {3, 64}}, state);
    for (parallel::index r = 0; r < 3; ++r) {
      double sum = 0.0;
      double squares = 0.0;
      for (parallel::index j = 0; j < 64; ++j) {
        sum += y(r, j);
        squares += y(r, j) * y(r, j);
      }
      bool const centred = std::fabs(sum / 64) < 1e-12;
      CHECK(centred == (layer.rule == norm_rule::layer));
      CHECK(std::fabs(squares / 64 - 1.0) < 1e-5);
    }
  }
}

TEST_CASE("norm: parameters are visited in order, the bias only where there is one") {
  std::vector<std::string> names;
  auto const add_name = [&](auto& p) { names.push_back(p.name); };
  auto layer = layer_norm(4);
  layer.visit_parameters(add_name);
  layer.bias = {};
  layer.visit_parameters(add_name);
  CHECK(names == std::vector<std::string>{"norm.weight", "norm.bias", "norm.weight"});
}

}  // namespace
}  // namespace norm_layer_test
